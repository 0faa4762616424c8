// poem train: trains a detector as a config says and writes a run folder.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/launched.h"
#include "core/interrupts.h"
#include "core/terminal.h"
#include "core/text.h"
#include "detect/results_output.h"
#include "poem/error.h"
#include "report/run_report.h"
#include "study/study.h"
#include "train/run.h"

namespace poem {
namespace {

struct Options {
  std::string config, out, resume;
  std::vector<std::string> set;
  bool force = false;
  int timeout = kTimeout;
};

// `--set objective.name=…` leaves the weight and the score of the config's own objective in place.
void warn_of_leftovers(const Config& file, const Config& config, const std::vector<std::string>& set) {
  const auto given = [&](const std::string& key) {
    return std::any_of(set.begin(), set.end(),
                       [&](const std::string& s) { return s.rfind(key + "=", 0) == 0; });
  };
  const std::string& objective = config.objective.name;
  if (objective == file.objective.name) return;
  const std::optional<double> published = resolved({objective, std::nullopt}).beta;
  if (!given("objective.beta") && published && config.objective.beta != published) {
    spdlog::warn(
        "objective.beta stays {}, which the config chose for {}; the published weight of {} is {} "
        "(--set objective.beta=auto)",
        *config.objective.beta, file.objective.name, objective, *published);
  }
  const std::string score = published_score(objective);
  if (!given("score") && !score.empty() && config.score != score) {
    spdlog::warn("score stays {}; {} is published with {} (--set score={})", config.score, objective, score,
                 score);
  }
}

// A signal while images are read leaves no run behind that could be resumed.
RunOutcome start(const Config& config, const std::string& folder, bool force, at::Device device,
                 const Team& team) {
  try {
    return start_run(config, folder, force, device, team);
  } catch (const Interrupted&) {
    spdlog::warn("interrupted before the training began; start it again with the same command");
    throw;
  }
}

void train(const Options& options, at::Device device, const Team& team) {
  RunOutcome outcome;
  std::string folder = options.resume;
  if (options.resume.empty()) {
    if (options.config.empty()) {
      throw Error("train", "needs CONFIG, or --resume RUN", "see poem train --help");
    }
    if (is_study_file(options.config)) {
      throw Error(options.config, "is a study, not the config of one training",
                  "run it with: poem study " + shell_quoted(options.config));
    }
    folder = options.out.empty() ? default_folder(options.config) : options.out;
    const Config config = read_config(options.config, options.set, "--set");
    warn_of_leftovers(parse_config(options.config), config, options.set);
    outcome = start(config, folder, options.force, device, team);
  } else {
    if (!options.config.empty() || !options.out.empty()) {
      throw Error("--resume", "uses the run's own config", "leave out CONFIG and --out");
    }
    outcome = resume_run(folder, device, options.set, team);
  }
  if (outcome.results) fmt::print("{}", to_table(*outcome.results, terminal(STDOUT_FILENO)));
  if (team.first()) write_run_report(folder);
  if (!outcome.finished) {
    spdlog::warn("interrupted; continue with: poem train --resume {}", shell_quoted(folder));
    throw Interrupted();
  }
  if (team.first()) spdlog::info("detector: {}\nreport: {}", detector_path(folder), report_path(folder));
}

}  // namespace

void add_train(CLI::App& app, const CommonOptions& common) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("train", "Train a detector from a config and write a run folder");
  command->add_option("config", options->config, "YAML file; 'poem config' prints every key");
  command->add_option("--out", options->out, "Run folder to create (default: runs/NAME for NAME.yaml)")
      ->type_name("RUN");
  add_overrides(*command, options->set);
  command->add_option("--resume", options->resume, "Continue a run that was stopped or killed")
      ->type_name("RUN");
  command->add_flag("--force", options->force, "Replace RUN if it exists");
  add_timeout(*command, options->timeout);
  command->footer(
      "Examples:\n"
      "  poem train configs/demo.yaml --out runs/first\n"
      "  poem train configs/demo.yaml --out runs/random --set mining.miner=random --seed 1\n"
      "  poem train --resume runs/first\n"
      "  poem train --resume runs/first --set train.epochs=20   # train for more epochs\n"
      "  poem launch --nproc 4 train configs/demo.yaml           # on 4 processes (docs/scale.md)");
  command->callback([options, &common] {
    in_team(common, options->timeout,
            [&](at::Device device, const Team& team) { train(*options, device, team); });
  });
}

}  // namespace poem
