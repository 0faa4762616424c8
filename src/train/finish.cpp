#include "train/finish.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>

#include "core/file.h"
#include "core/json_text.h"
#include "core/npy.h"
#include "detect/results_output.h"
#include "detect/scores_csv.h"
#include "poem/calibration.h"
#include "train/gallery.h"
#include "train/run_checks.h"

namespace poem {
namespace {

using nlohmann::ordered_json;

Detector bare_detector(const Config& config, const TrainingData& data, std::shared_ptr<Network> network) {
  return {std::move(network), nullptr, std::nullopt, data.id.class_names, config.data.size};
}

// The results, and how far the detector's threshold can be trusted.
std::string results_text(const Results& results, const Detector& detector) {
  ordered_json json = to_full_json(results);
  json["calibration"] = nullptr;
  if (detector.calibration) {
    const KeptShare kept = kept_share(*detector.calibration);
    json["calibration"] = {{"tpr", detector.calibration->tpr},
                           {"images", detector.calibration->images},
                           {"kept_low", kept.low},
                           {"kept_high", kept.high}};
  }
  return json_text(json, 2) + "\n";
}

}  // namespace

IdImages split_images(const TrainingData& data) {
  return {subset(data.id, data.train_rows), subset(data.id, data.validation_rows)};
}

Detector make_detector(const Config& config, const TrainingData& data, const Trainer& trainer) {
  Detector detector = bare_detector(config, data, trainer.detector_network());
  std::optional<IdImages> id;
  if (needs(config.score, kImages)) id = split_images(data);
  detector.score = fit_scores({config.score}, detector, id).front();
  if (!data.validation_rows.empty()) {
    const ImageSet held_out = subset(data.id, data.validation_rows);
    set_threshold(detector, to_floats(detector.scores(held_out)), config.tpr);
  }
  return detector;
}

void warn_of_few_held_out(const Config& config, const TrainingData& data) {
  constexpr int64_t kFew = 200;
  const auto count = static_cast<int64_t>(data.validation_rows.size());
  if (count >= kFew) return;
  const auto& share = config.data.validation;
  const std::string key = fmt::format("data.validation {}", share ? fmt::to_string(*share) : "auto");
  if (count == 0) {
    spdlog::warn("{} holds out no image: the detector will have no threshold", key);
    return;
  }
  const KeptShare kept = kept_share({config.tpr, count});
  spdlog::warn(
      "{} holds out few images ({}): the threshold will keep {:.1f} to {:.1f} % of new ID images (95 % "
      "confidence). Raise data.validation, or add ID images",
      key, count, 100 * kept.low, 100 * kept.high);
}

void check_score(const Config& config, const TrainingData& data, const Trainer& trainer) {
  const IdImages images{data.id, subset(data.id, data.validation_rows)};
  choose_scores({config.score}, available(bare_detector(config, data, trainer.network()), images));
}

// The detector comes last: a run that has it is finished.
std::optional<Results> finish_run(const RunFolder& folder, const Detector& detector,
                                  const std::optional<TestData>& test) {
  if (detector.threshold)
    spdlog::info("threshold {:.6g} {}", *detector.threshold, to_text(*detector.calibration));
  if (!test) {
    detector.save(folder.detector);
    return std::nullopt;
  }
  const auto sets = score_sets(detector, {detector.score}, *test);
  const Results results = summarise(sets, detector, {detector.score}, test->id).front();
  if (!results.problem.empty()) spdlog::warn("score '{}': {}", detector.score->name(), results.problem);
  make_output_folder(folder.scores);
  for (const ScoredSet& set : sets)
    write_npy(folder.scores + "/" + set.name + ".npy", at::tensor(set.scores.front()));
  write_file(folder.verdicts, scores_csv(sets, detector, {detector.score}, *test));
  write_test_sheets(folder.gallery, detector, *test, sets);
  write_file(folder.table, to_csv(results));
  write_file(folder.results, results_text(results, detector));
  detector.save(folder.detector);
  return results;
}

}  // namespace poem
