// poem posthoc: the scores that need only features, computed on the features of any network.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "core/file.h"
#include "core/interrupts.h"
#include "core/npy.h"
#include "core/output_files.h"
#include "core/text.h"
#include "detect/posthoc.h"
#include "detect/results_output.h"
#include "poem/balance.h"
#include "poem/error.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string train, labels, head, id, out, balance;
  std::vector<std::string> ood, score;
  uint64_t seed = 0;
  bool json = false, force = false;
};

struct Outputs {
  std::string json, csv;
  std::vector<std::string> folders;              // one per score
  std::vector<std::vector<std::string>> scores;  // ID first, then the OOD sets

  std::vector<std::string> all() const {
    std::vector<std::string> paths = {json, csv};
    for (const auto& of_score : scores) paths.insert(paths.end(), of_score.begin(), of_score.end());
    return paths;
  }
};

Outputs name_outputs(const std::string& out, const std::vector<std::string>& scores,
                     const std::vector<NamedPath>& ood) {
  Outputs outputs{out + "/results.json", out + "/results.csv", {}, {}};
  for (const std::string& score : scores) {
    const std::string folder = out + "/" + score;
    outputs.folders.push_back(folder);
    outputs.scores.push_back({folder + "/id.npy"});
    for (const NamedPath& set : ood) outputs.scores.back().push_back(folder + "/" + set.name + ".npy");
  }
  return outputs;
}

// Called before the work, and again before writing.
void check_free(const Outputs& outputs, bool force) {
  for (const std::string& path : outputs.all()) {
    if (fs::exists(fs::path(path).parent_path())) OutputFiles({path}, force);
  }
}

// The files of scores that belong to the results in `out`, if there are any.
std::vector<std::string> earlier_scores(const std::string& out) {
  if (!fs::exists(out + "/results.json")) return {};
  const auto json =
      nlohmann::json::parse(read_file(out + "/results.json"), nullptr, /*allow_exceptions=*/false);
  std::vector<std::string> paths;
  for (const std::string& score : choose_scores({"all"}, kPosthocNeeds)) {
    const nlohmann::json::json_pointer sets("/scores/" + score + "/sets");
    if (!json.is_object() || !json.contains(sets)) continue;
    paths.push_back(out + "/" + score + "/id.npy");
    for (const auto& [name, figures] : json[sets].items()) {
      if (name.find('/') == name.npos) paths.push_back(fmt::format("{}/{}/{}.npy", out, score, name));
    }
  }
  return paths;
}

// Removes score files of earlier results: beside the new results they would be taken for theirs.
void remove_earlier(const std::vector<std::string>& earlier, const Outputs& outputs) {
  const std::vector<std::string> kept = outputs.all();
  for (const std::string& path : earlier) {
    if (std::find(kept.begin(), kept.end(), path) != kept.end()) continue;
    std::error_code problem, ignored;
    fs::remove(path, problem);
    if (problem)
      spdlog::warn("{} belongs to earlier results and cannot be removed: {}", path, problem.message());
    fs::remove(fs::path(path).parent_path(), ignored);  // fails if the folder contains anything else
  }
}

void write(const Outputs& outputs, const std::vector<std::vector<at::Tensor>>& scores,
           const ScoreResults& results, bool force) {
  for (const std::string& folder : outputs.folders) make_output_folder(folder);
  OutputFiles files(outputs.all(), force);
  const std::vector<std::string> earlier = earlier_scores(fs::path(outputs.json).parent_path().string());
  for (size_t i = 0; i < outputs.scores.size(); ++i) {
    for (size_t set = 0; set < scores.size(); ++set)
      files.write(outputs.scores[i][set],
                  [&](const std::string& staged) { write_npy(staged, scores[set][i]); });
  }
  files.write(outputs.csv, [&](const std::string& staged) { write_file(staged, to_csv(results)); });
  files.write(outputs.json, [&](const std::string& staged) { write_file(staged, to_json_text(results)); });
  files.commit();
  remove_earlier(earlier, outputs);
}

// The figures of every score, and the scores themselves: by set, ID first, then by score.
ScoreResults summarise(const std::vector<std::unique_ptr<Score>>& scores,
                       const std::vector<std::vector<at::Tensor>>& by_set, const FeaturePaths& paths,
                       const std::optional<Balance>& balance) {
  ScoreResults results;
  for (size_t i = 0; i < scores.size(); ++i) {
    SetScores ood;
    for (size_t set = 0; set < paths.ood.size(); ++set)
      ood.emplace_back(paths.ood[set].name, to_doubles(by_set[set + 1][i]));
    results.emplace_back(scores[i]->name(), results_of(*scores[i], to_doubles(by_set[0][i]), ood, balance));
  }
  if (results.size() == 1) check_figures(results[0].first, results[0].second);
  return results;
}

// A file of poem features also contains labels and the last layer.
std::string or_train(const std::string& given, const std::string& train, const std::string& option) {
  if (!given.empty()) return given;
  if (fs::path(train).extension() == ".npz") return train;
  throw Error(option, "is missing", "give it, or pass a file of poem features to --train");
}

void run(const Options& options) {
  const FeaturePaths paths{options.train, or_train(options.labels, options.train, "--train-labels"),
                           or_train(options.head, options.train, "--head"), options.id,
                           named_paths("--ood", options.ood)};
  check_file_names("--ood", paths.ood);
  const std::vector<std::string> names = choose_scores(options.score, kPosthocNeeds);
  const Outputs outputs = name_outputs(options.out, names, paths.ood);
  check_free(outputs, options.force);
  const std::optional<Balance> balance = parse_balance(options.balance, options.seed);
  catch_interrupts();
  const FeatureData data = read_feature_data(paths);
  const auto scores = fit_scores(names, data);
  std::vector<std::vector<at::Tensor>> by_set = {score_features(scores, data.head, data.id)};
  for (const auto& [name, features] : data.ood) by_set.push_back(score_features(scores, data.head, features));
  const ScoreResults results = summarise(scores, by_set, paths, balance);
  write(outputs, by_set, results, options.force);
  fmt::print("{}", options.json ? to_json_text(results) : to_table(results, terminal(STDOUT_FILENO)));
  spdlog::info("scores: {0}/SCORE/*.npy; results: {0}/results.json, {0}/results.csv", options.out);
}

}  // namespace

void add_posthoc(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command =
      app.add_subcommand("posthoc", "Compute scores from files of features and evaluate each score");
  command
      ->add_option("--train", options->train,
                   "Features of ID training inputs; scores are fitted on these alone")
      ->required()
      ->type_name("F.npy");
  command
      ->add_option("--train-labels", options->labels,
                   "Their classes: integers from 0 (default: labels of --train, if it is an .npz)")
      ->type_name("L.npy");
  command
      ->add_option("--head", options->head,
                   "The last layer: weight (classes x features) and bias (default: those of --train)")
      ->type_name("HEAD.npz");
  command->add_option("--id", options->id, "Features of ID test inputs")->required()->type_name("F.npy");
  command->add_option("--ood", options->ood, "Features of OOD test inputs (may be repeated)")
      ->required()
      ->type_name("NAME=F.npy");
  command
      ->add_option("--score", options->score,
                   "all, or some of: " + listed(choose_scores({"all"}, kPosthocNeeds)))
      ->required()
      ->delimiter(',')
      ->type_name("NAME[,NAME...]");
  add_balance(*command, options->balance, options->seed);
  command
      ->add_option("--out", options->out,
                   "Folder for SCORE/id.npy, SCORE/NAME.npy, results.json and results.csv")
      ->required()
      ->type_name("DIR");
  command->add_flag("--json", options->json, "Print JSON (shares of 1) instead of the table (percent)");
  command->add_flag("--force", options->force,
                    "Replace the files of an earlier posthoc in DIR, and nothing else");
  command->footer(
      "Features are arrays of floats, rows x features, from any network's penultimate layer; an .npz has "
      "them\n"
      "as features, such as poem features writes. Higher scores mean ID. docs/scores.md has the formulas.\n"
      "Examples:\n"
      "  poem posthoc --train train.npz --id id.npz --ood street=street.npz --score all --out scores\n"
      "  poem posthoc --train train.npy --train-labels labels.npy --head head.npz --id test.npy \\\n"
      "    --ood svhn=svhn.npy --ood textures=dtd.npy --score all --out scores");
  command->callback([options] { run(*options); });
}

}  // namespace poem
