// poem report: what a run did, or several of them side by side, as one page.
#include <spdlog/spdlog.h>

#include "cli/commands.h"
#include "core/error.h"
#include "report/comparison.h"
#include "report/run_report.h"

namespace poem {
namespace {

struct Options {
  std::vector<std::string> runs;
  std::string out;
  bool force = false;
};

void run(const Options& options) {
  if (options.runs.size() > 1 && options.out.empty()) {
    throw Error("--out", "is missing: several runs have no folder of their own",
                "say where to write the page");
  }
  std::vector<RunData> runs;
  for (const std::string& folder : options.runs) runs.push_back(read_run(folder));
  const std::string path = options.out.empty() ? report_path(options.runs[0]) : options.out;
  write_report(path, runs.size() == 1 ? run_report(runs[0]) : comparison(runs), options.force);
  spdlog::info("report: {}", path);
}

}  // namespace

void add_report(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("report", "Write what a run did as a page, or compare several runs");
  command->add_option("run", options->runs, "Run folders, also of runs that still go on")
      ->required()
      ->type_name("RUN");
  command->add_option("--out", options->out, "The page (default for one run: RUN/report.html)")
      ->type_name("FILE");
  command->add_flag("--force", options->force, "Replace FILE even if it is no report");
  command->footer(
      "The page is one file that needs nothing else: open it in a browser, from disk, or send it.\n"
      "Examples:\n"
      "  poem report runs/demo/poem\n"
      "  poem report runs/demo/none runs/demo/random runs/demo/poem --out compared.html");
  command->callback([options] { run(*options); });
}

}  // namespace poem
