// poem bench: what this machine does per second, for poem plan.
#include <fmt/format.h>

#include "cli/commands.h"
#include "core/file.h"
#include "core/interrupts.h"
#include "plan/measure.h"
#include "poem/config.h"
#include "poem/runtime.h"

namespace poem {
namespace {

struct Options {
  std::string config, out = "machine.json", disk = ".";
  std::vector<std::string> set;
};

void run(const Options& options, const CommonOptions& common) {
  catch_interrupts();
  const Machine machine = measure_machine(read_config(options.config, options.set, "--set"),
                                          pick_device(common.device), options.disk);
  const std::string text = to_json_text(machine);
  write_file(options.out, text);
  fmt::print("{}now: poem plan {} --machine {}\n", text, options.config, options.out);
}

}  // namespace

void add_bench(CLI::App& app, const CommonOptions& common) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("bench", "Measure the speed of this machine, for poem plan");
  command->add_option("config", options->config, "YAML file of a training: its network is measured")
      ->required();
  command->add_option("--out", options->out, "File to write")->capture_default_str()->type_name("FILE");
  command->add_option("--disk", options->disk, "Folder on the disk to measure; takes 256 MiB for a moment")
      ->capture_default_str()
      ->type_name("DIR");
  add_set(*command, options->set);
  command->footer(
      "It trains on random pixels: the config's data is not read.\n"
      "Example:\n"
      "  poem bench configs/cifar10.yaml --out machine.json");
  command->callback([options, &common] { run(*options, common); });
}

}  // namespace poem
