// poem eval: evaluates a detector on test sets.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "cli/commands.h"
#include "core/file.h"
#include "core/interrupts.h"
#include "core/output_files.h"
#include "core/text.h"
#include "detect/results_output.h"
#include "detect/scores_csv.h"
#include "poem/error.h"
#include "poem/evaluate.h"
#include "poem/fit.h"
#include "poem/random.h"
#include "poem/read.h"
#include "poem/runtime.h"
#include "poem/training.h"
#include "train/data.h"
#include "train/run_folder.h"

namespace poem {
namespace {

struct Options {
  std::string run, id, train, out, balance;
  std::vector<std::string> ood, score;
  uint64_t seed = 0;
  bool json = false, skip_bad = false, force = false;
};

std::vector<std::string> outputs(const std::string& folder) {
  return {folder + "/results.json", folder + "/results.csv", folder + "/scores.csv"};
}

// A folder with config.yaml is a run, whose results.json is the training's own.
void check_free(const Options& options) {
  if (!std::filesystem::exists(options.out)) return;
  if (RunFolder(options.out).is_run()) {
    throw Error(options.out, "is a run folder, which has a results.json of its own", "choose another folder");
  }
  OutputFiles(outputs(options.out), options.force);
}

void write(const ScoreResults& results, const std::string& scores, const Options& options) {
  make_output_folder(options.out);
  const std::vector<std::string> paths = outputs(options.out),
                                 texts = {to_json_text(results), to_csv(results), scores};
  OutputFiles files(paths, options.force);
  for (size_t i = 0; i < paths.size(); ++i)
    files.write(paths[i], [&](const std::string& staged) { write_file(staged, texts[i]); });
  files.commit();
}

// The images of --train. A tenth of them replaces the images that the run held out, which are not known here.
IdImages read_id_images(const Options& options, const Detector& detector) {
  const ImageSet all = read_images(options.train, {detector.size, options.skip_bad});
  check_fits(detector.network->spec().channels, detector.class_names, {all, {}});
  if (!all.labelled()) throw Error(options.train, "has no labels", "scores are fitted on labelled images");
  Stream stream(0, "held-out");
  std::vector<int64_t> train, held_out = sample(all.size(), all.size() / 10, stream);
  for (int64_t row = 0; row < all.size(); ++row) {
    if (!std::binary_search(held_out.begin(), held_out.end(), row)) train.push_back(row);
  }
  return {subset(all, train), subset(all, held_out)};
}

// The images that the chosen scores are fitted on, if they need any and there are any.
std::optional<IdImages> find_id_images(const Options& options, const Detector& detector) {
  const auto needs_images = [&](const std::string& name) {
    return name == "all" || (name != detector.score->name() && needs(name, kImages));
  };
  if (std::none_of(options.score.begin(), options.score.end(), needs_images)) return std::nullopt;
  if (!options.train.empty()) return read_id_images(options, detector);
  if (std::filesystem::is_directory(options.run)) return load_id_images(options.run);
  return std::nullopt;
}

// `all` chooses the scores that can be computed here. The log names the others.
void tell_left_out(const std::vector<std::string>& chosen, const ScoreResults& results) {
  if (std::find(chosen.begin(), chosen.end(), "all") == chosen.end()) return;
  std::vector<std::string> names = score_names();
  for (const auto& [name, figures] : results)
    names.erase(std::remove(names.begin(), names.end(), name), names.end());
  if (!names.empty())
    spdlog::info("left out, because this detector or command lacks what they need: {} (docs/scores.md)",
                 listed(names));
}

// Finds the mistakes of the command line before the first image is read.
void check(const Options& options) {
  check_free(options);                // checked again before writing
  choose_scores(options.score, ~0u);  // only the names: whether a score can be computed is known later
  if (!options.train.empty()) check_source(options.train);
  check_test_sources(options.id, options.ood, {});
}

// A score that this network does not support is an Error that names the detector's file.
void check_scores(const Options& options, const std::string& path, const Detector& detector,
                  const std::optional<IdImages>& id_images) {
  try {
    choose_scores(options.score, available(detector, id_images), detector.score->name());
  } catch (const Error& e) {
    throw e.within(path);
  }
}

void run(Options options, const CommonOptions& common) {
  catch_interrupts();
  check(options);
  const std::optional<Balance> balance = parse_balance(options.balance, options.seed);
  const std::string path = detector_path(options.run);
  const Detector detector = Detector::load(path);
  detector.network->to(pick_device(common.device));
  if (options.score.empty()) options.score = {detector.score->name()};
  const std::optional<IdImages> id_images = find_id_images(options, detector);
  check_scores(options, path, detector, id_images);
  const TestData test = load_test_data(options.id, options.ood, {detector.size, options.skip_bad});
  const auto scores = fit_scores(options.score, detector, id_images);
  const std::vector<ScoredSet> sets = score_sets(detector, scores, test);
  const std::vector<Results> all = summarise(sets, detector, scores, test.id, balance);
  ScoreResults results;
  for (size_t i = 0; i < scores.size(); ++i) results.emplace_back(scores[i]->name(), all[i]);
  if (results.size() == 1) check_figures(results[0].first, all[0]);
  if (!options.out.empty()) write(results, scores_csv(sets, detector, scores, test), options);
  const Terminal out = terminal(STDOUT_FILENO);
  const std::string table = all.size() == 1 ? to_table(all.front(), out) : to_table(results, out);
  fmt::print("{}", options.json ? to_json_text(results) : table);
  tell_left_out(options.score, results);
  if (!options.out.empty())
    spdlog::info("results: {0}/results.json, {0}/results.csv, {0}/scores.csv", options.out);
}

}  // namespace

void add_eval(CLI::App& app, const CommonOptions& common) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("eval", "Evaluate a detector on ID and OOD test sets");
  command->add_option("run", options->run, "Run folder, or a detector.safetensors")->required();
  command->add_option("--id", options->id, "ID test images (labelled: gives the accuracy)")
      ->required()
      ->type_name("PATH");
  command->add_option("--ood", options->ood, "OOD test images (may be repeated)")
      ->required()
      ->type_name("NAME=PATH");
  command
      ->add_option("--score", options->score,
                   "all, or some of: " + listed(score_names()) + " (default: the detector's own)")
      ->delimiter(',')
      ->type_name("NAME[,NAME...]");
  command
      ->add_option("--train", options->train,
                   "ID training images to fit scores on (default: those of the run's config)")
      ->type_name("PATH");
  add_balance(*command, options->balance, options->seed);
  command
      ->add_option("--out", options->out,
                   "Folder for results.json, results.csv and scores.csv, which has the score of every image")
      ->type_name("DIR");
  command->add_flag("--json", options->json, "Print JSON (shares of 1) instead of the table (percent)");
  command->add_flag("--skip-bad", options->skip_bad, "Leave out images that cannot be decoded");
  command->add_flag("--force", options->force, "Replace existing results");
  command->footer(
      "Scores other than the detector's own that need training features are fitted on the run's ID images;\n"
      "no test set is seen by any fit. docs/scores.md has the formulas.\n"
      "Examples:\n"
      "  poem eval runs/first --id world:test --ood digits=world:digits --ood scenes=world:scenes\n"
      "  poem eval runs/cifar --id cifar-10-batches-bin/test_batch.bin --ood svhn=test_32x32.mat --json\n"
      "  poem eval runs/cifar --id test/ --ood svhn=test_32x32.mat --score knn,vim,mahalanobis\n"
      "  poem eval runs/cifar --id test/ --ood 'svhn=test_32x32.mat#per_class=1000' --balance 1:1");
  command->callback([options, &common] { run(*options, common); });
}

}  // namespace poem
