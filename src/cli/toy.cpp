// poem toy: the paper's two-dimensional example, as data and pictures.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/numbers.h"
#include "core/file.h"
#include "core/interrupts.h"
#include "poem/runtime.h"
#include "report/toy_report.h"

namespace poem {
namespace {

struct Options {
  std::string out = "runs/toy";
  int64_t seed = 0;
  bool force = false;
};

void run(const Options& options, const CommonOptions& common) {
  const at::Device device = pick_device(common.device);
  set_up_runtime(1);  // for batches of sixty points, a second thread costs more than it saves
  catch_interrupts();
  check_output_folder(options.out, options.force, kToyMark);
  const Toy toy = run_toy(toy_config(options.seed), device);
  fill_output_folder(options.out, options.force, kToyMark, [&] { write_toy(toy, options.out); });
  fmt::print("{} epochs with {} mined outliers each; open {}/report.html\n", toy.epochs.size(),
             toy.epochs.front().mined.size(0), options.out);
}

}  // namespace

void add_toy(CLI::App& app, const CommonOptions& common) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("toy", "Draw the paper's two-dimensional example (Figures 1 and 2b)");
  command->add_option("--out", options->out, "Folder for data files and pictures")
      ->capture_default_str()
      ->type_name("DIR");
  command->add_option("--seed", options->seed, "Seed of the points and the training")
      ->check(whole(0))
      ->capture_default_str()
      ->type_name("S");
  command->add_flag("--force", options->force, "Replace DIR if an earlier poem toy wrote it");
  command->footer("Examples:\n  poem toy\n  poem toy --out toy-1 --seed 1");
  command->callback([options, &common] { run(*options, common); });
}

}  // namespace poem
