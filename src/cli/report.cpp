// poem report: one page about a run or a study, or about several runs side by side.
#include <spdlog/spdlog.h>

#include <filesystem>

#include "cli/commands.h"
#include "poem/error.h"
#include "report/comparison.h"
#include "report/run_report.h"
#include "report/study_report.h"

namespace poem {
namespace {

struct Options {
  std::vector<std::string> runs;
  std::string out;
  bool force = false;
};

std::string page_of(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    if (std::filesystem::exists(folder + "/toy.json"))
      throw Error(folder, "was written by 'poem toy' and has its own report", "open its report.html");
  }
  if (folders.size() == 1 && is_study(folders[0])) return study_report_of(folders[0]);
  std::vector<RunData> runs;
  for (const std::string& folder : folders) {
    if (is_study(folder))
      throw Error(folder, "is a study, which gets its own page", "name only the study, or some of its runs");
    runs.push_back(read_run(folder));
  }
  return runs.size() == 1 ? run_report(runs[0]) : comparison(runs);
}

void run(const Options& options) {
  if (options.runs.size() > 1 && options.out.empty()) {
    throw Error("--out", "is missing; a page about several runs has no default place",
                "say where to write the page");
  }
  const std::string path = options.out.empty() ? report_path(options.runs[0]) : options.out;
  write_report(path, page_of(options.runs), options.force);
  spdlog::info("report: {}", path);
}

}  // namespace

void add_report(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command =
      app.add_subcommand("report", "Write a page about a run or a study, or compare several runs");
  command
      ->add_option("run", options->runs,
                   "Run folders, or the folder of one study; they may still be in progress")
      ->required()
      ->type_name("RUN");
  command->add_option("--out", options->out, "The page (default for one folder: RUN/report.html)")
      ->type_name("FILE");
  command->add_flag("--force", options->force, "Replace FILE even if it is not a report");
  command->footer(
      "The page is one self-contained file: open it in a browser, or send it to someone.\n"
      "Examples:\n"
      "  poem report runs/first\n"
      "  poem report runs/table1 --out table1.html\n"
      "  poem report runs/first runs/random --out compared.html");
  command->callback([options] { run(*options); });
}

}  // namespace poem
