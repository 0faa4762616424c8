// poem metrics: how well score files tell ID from OOD.
#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "core/named_path.h"
#include "core/scores_file.h"
#include "detect/results_output.h"
#include "poem/balance.h"

namespace poem {
namespace {

struct Options {
  std::string id, balance;
  std::vector<std::string> ood;
  uint64_t seed = 0;
  bool json = false;
};

void run(const Options& options) {
  const std::vector<NamedPath> files = named_paths("--ood", options.ood);
  const std::optional<Balance> balance = parse_balance(options.balance, options.seed);
  const std::vector<double> id = read_scores(options.id, "id");
  SetScores ood;
  for (const NamedPath& file : files) ood.emplace_back(file.name, read_scores(file.path, file.name));
  const Results results = results_of(id, ood, balance);
  fmt::print("{}", options.json ? to_json_text(results) : to_table(results, terminal(STDOUT_FILENO)));
}

}  // namespace

void add_metrics(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("metrics", "Compute OOD metrics from files of scores (higher is ID)");
  command->add_option("--id", options->id, "Scores of ID inputs")->required()->type_name("FILE");
  command->add_option("--ood", options->ood, "Scores of OOD inputs (may be repeated)")
      ->required()
      ->type_name("NAME=FILE");
  add_balance(*command, options->balance, options->seed);
  command->add_flag("--json", options->json, "Print JSON (shares of 1) instead of the table (percent)");
  command->footer(
      "A score file is a .npy array (or an .npz of one), a .csv whose last column is the score (a header\n"
      "line may come first), or text: numbers separated by white space. Of the scores.csv of poem train and\n"
      "poem eval, --id reads the rows of set id, and --ood NAME=FILE those of set NAME. Scores are compared\n"
      "as float64; equal ones count as ties.\n"
      "Examples:\n"
      "  poem metrics --id test.npy --ood svhn=svhn.npy --ood textures=dtd.npy\n"
      "  poem metrics --id test.csv --ood svhn=svhn.csv --json\n"
      "  poem metrics --id test.csv --ood svhn=svhn.csv --balance 1:1\n"
      "  poem metrics --id runs/mine/scores.csv --ood svhn=runs/mine/scores.csv");
  command->callback([options] { run(*options); });
}

}  // namespace poem
