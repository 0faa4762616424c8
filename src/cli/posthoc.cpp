// poem posthoc: every score that needs only features, on features from anyone's network.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <filesystem>

#include "cli/commands.h"
#include "core/error.h"
#include "core/file.h"
#include "core/npy.h"
#include "core/output_files.h"
#include "core/runtime.h"
#include "core/text.h"
#include "detect/posthoc.h"
#include "detect/results.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string train, labels, head, id, out;
  std::vector<std::string> ood, score;
  bool json = false, force = false;
};

struct Outputs {
  std::string json, csv;
  std::vector<std::string> folders;              // one a score
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

// Asked before the work, and again before writing.
void check_free(const Outputs& outputs, bool force) {
  for (const std::string& path : outputs.all()) {
    if (fs::exists(fs::path(path).parent_path())) OutputFiles({path}, force);
  }
}

void write(const Outputs& outputs, const std::vector<std::vector<at::Tensor>>& scores,
           const ScoreResults& results, bool force) {
  for (const std::string& folder : outputs.folders) make_output_folder(folder);
  OutputFiles files(outputs.all(), force);
  for (size_t i = 0; i < outputs.scores.size(); ++i) {
    for (size_t set = 0; set < scores.size(); ++set)
      write_npy(files.staged(outputs.scores[i][set]), scores[set][i]);
  }
  write_file(files.staged(outputs.csv), to_csv(results));
  write_file(files.staged(outputs.json), to_json_text(results));
  files.commit();
}

void run(const Options& options) {
  const FeaturePaths paths{options.train, options.labels, options.head, options.id,
                           named_paths("--ood", options.ood)};
  check_file_names("--ood", paths.ood);
  const std::vector<std::string> names = choose_scores(options.score, kPosthocNeeds);
  const Outputs outputs = name_outputs(options.out, names, paths.ood);
  check_free(outputs, options.force);
  catch_interrupts();
  const FeatureData data = read_feature_data(paths);
  const auto scores = fit_scores(names, data);
  std::vector<std::vector<at::Tensor>> by_set = {score_features(scores, data.head, data.id)};
  for (const auto& [name, features] : data.ood) by_set.push_back(score_features(scores, data.head, features));
  ScoreResults results;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::vector<float> id = to_floats(by_set[0][i]);
    std::vector<SetResult> sets;
    for (size_t set = 0; set < data.ood.size(); ++set)
      sets.push_back({data.ood[set].first, ood_metrics(id, to_floats(by_set[set + 1][i]))});
    results.emplace_back(names[i], make_results(std::move(sets)));
  }
  write(outputs, by_set, results, options.force);
  fmt::print("{}", options.json ? to_json_text(results) : to_table(results));
}

}  // namespace

void add_posthoc(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("posthoc", "Score files of features, and tell how well each score does");
  command
      ->add_option("--train", options->train, "Features of ID training inputs: all that scores are fitted on")
      ->required()
      ->type_name("F.npy");
  command->add_option("--train-labels", options->labels, "Their classes: integers from 0")
      ->required()
      ->type_name("L.npy");
  command->add_option("--head", options->head, "The last layer: weight (classes x features) and bias")
      ->required()
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
  command->add_option("--out", options->out, "For SCORE/id.npy, SCORE/NAME.npy, results.json and results.csv")
      ->required()
      ->type_name("DIR");
  command->add_flag("--json", options->json, "Print JSON (shares of 1) instead of the table (percent)");
  command->add_flag("--force", options->force, "Replace outputs that exist");
  command->footer(
      "Features are arrays of floats, rows x features, from any network's penultimate layer. Higher scores\n"
      "mean ID. docs/scores.md has the formulas.\n"
      "Example:\n"
      "  poem posthoc --train train.npy --train-labels labels.npy --head head.npz --id test.npy \\\n"
      "    --ood svhn=svhn.npy --ood textures=dtd.npy --score all --out scores");
  command->callback([options] { run(*options); });
}

}  // namespace poem
