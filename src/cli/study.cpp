// poem study: methods × settings × seeds in, tables out.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "cli/commands.h"
#include "cli/numbers.h"
#include "core/interrupts.h"
#include "core/runtime.h"
#include "core/terminal.h"
#include "poem/error.h"
#include "report/study_report.h"
#include "study/study_run.h"
#include "study/study_table.h"

namespace poem {
namespace {

struct Options {
  std::string file, out;
  size_t jobs = 1;
  bool force = false;
};

// Prints every failure on its own line, then throws the error that ends the program.
[[noreturn]] void fail(const Study& study, const std::vector<MissingCell>& missing) {
  for (const MissingCell& cell : missing) {
    spdlog::error("{}: {}", cell_name(study, cell.setting, cell.method, cell.seed), cell.failure);
  }
  throw Error(
      study.path,
      fmt::format("{} failed, see above",
                  missing.size() == 1 ? "one cell" : fmt::format("{} cells", missing.size())),
      "the same command tries again; if it fails again, correct the row, or delete its folder in runs/ to "
      "train it from the start");
}

}  // namespace

void carry_out(const Study& study, const std::string& out, size_t jobs, bool force,
               const CommonOptions& common) {
  StudyOptions options{out, jobs, force, {}, pick_device(common.device), {}};
  const int threads = common.threads > 0 ? common.threads : std::max(1, cores() / static_cast<int>(jobs));
  options.program = {std::filesystem::read_symlink("/proc/self/exe").string(), "--threads",
                     std::to_string(threads), "--device", common.device};
  options.published = [&] { write_study_report(out); };
  catch_interrupts();
  StudyResults results;
  try {
    results = run_study(study, options);
  } catch (const Interrupted&) {
    spdlog::warn("interrupted; the same command continues");
    throw;
  }
  fmt::print("{}", to_text(make_table(study, results), terminal(STDOUT_FILENO)));
  spdlog::info(
      "tables: {0}/table.md, {0}/table.tex; figures: {0}/results.csv, {0}/results.json; "
      "report: {0}/report.html",
      out);
  if (!results.missing.empty()) fail(study, results.missing);
}

void add_study(CLI::App& app, const CommonOptions& common) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("study", "Compare methods over seeds and settings; print their table");
  command->add_option("file", options->file, "YAML file that describes the study (docs/studies.md)")
      ->required();
  command
      ->add_option("--out", options->out,
                   "Folder of the study; finished parts in it are kept (default: runs/NAME of FILE)")
      ->type_name("DIR");
  command
      ->add_option("--jobs", options->jobs,
                   "Trainings at the same time; each gets its share of the cores, or --threads")
      ->check(whole(1, 1024))
      ->capture_default_str()
      ->type_name("J");
  command->add_flag("--force", options->force, "Delete the runs of an earlier study in DIR first");
  command->footer(
      "On several hosts: start the same command on each, with a folder that all of them see.\n"
      "Examples:\n"
      "  poem study configs/study/table1-demo.yaml\n"
      "  poem study configs/study/table1-cifar10.yaml --out runs/cifar10 --jobs 4");
  command->callback([options, &common] {
    const std::string out = options->out.empty() ? default_folder(options->file) : options->out;
    carry_out(read_study(options->file), out, options->jobs, options->force, common);
  });
}

}  // namespace poem
