#include "poem/evaluate.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "poem/error.h"
#include "poem/fit.h"
#include "poem/metrics.h"

namespace poem {
namespace {

constexpr size_t kMostConfused = 1000;  // classes; with more, the matrix would be too large

// Whether the names are only 0, 1, 2, …: the source had labels but no names for them.
bool unnamed(const std::vector<std::string>& class_names) {
  for (size_t i = 0; i < class_names.size(); ++i) {
    if (class_names[i] != std::to_string(i)) return false;
  }
  return true;
}

// All scores of the images from one forward pass, and the most likely classes.
ScoredSet score_images(const Detector& detector, const std::vector<std::shared_ptr<Score>>& scores,
                       const std::string& name, const ImageSet& images) {
  ScoredSet set{name, std::vector<std::vector<float>>(scores.size()), {}};
  std::vector<at::Tensor> predicted;
  detector.for_each_batch(images, [&](const Batch& batch) {
    if (detector.network->classifies()) predicted.push_back(batch.logits.argmax(1).cpu());
    for (size_t i = 0; i < scores.size(); ++i) {
      const std::vector<float> block = to_floats((*scores[i])(batch));
      set.scores[i].insert(set.scores[i].end(), block.begin(), block.end());
    }
  });
  if (!predicted.empty()) set.predicted = at::cat(predicted);
  return set;
}

AtThreshold count_at_threshold(const std::vector<ScoredSet>& sets, size_t score, const Detector& detector) {
  AtThreshold counts{*detector.threshold, {}, {}};
  if (detector.unsure) counts.unsure_threshold = detector.unsure->threshold;
  for (const ScoredSet& set : sets) {
    const std::vector<float>& values = set.scores[score];
    const auto from = [&](double threshold) -> int64_t {
      return std::count_if(values.begin(), values.end(), [&](float value) { return value >= threshold; });
    };
    const int64_t kept = from(counts.threshold);
    counts.sets.push_back({set.name, kept, static_cast<int64_t>(values.size()) - kept,
                           counts.unsure_threshold ? from(*counts.unsure_threshold) - kept : 0});
  }
  return counts;
}

}  // namespace

// The labels as positions in `class_names`: by name where all names are known, so that a test folder may lack
// some classes; by position where one side has no names.
at::Tensor labels_among(const ImageSet& images, const std::vector<std::string>& class_names) {
  std::vector<int64_t> positions;
  std::string unknown;
  for (const std::string& name : images.class_names) {
    const auto found = std::find(class_names.begin(), class_names.end(), name);
    if (found == class_names.end() && unknown.empty()) unknown = name;
    positions.push_back(found - class_names.begin());
  }
  if (unknown.empty()) return at::tensor(positions, at::kLong).index_select(0, images.labels);
  if (!unnamed(images.class_names) && !unnamed(class_names)) {
    throw Error(images.name, fmt::format("has a class '{}' that the training images do not have", unknown),
                "they have " + listed(class_names));
  }
  const int64_t largest = images.labels.max().item<int64_t>();
  if (largest >= static_cast<int64_t>(class_names.size())) {
    throw Error(images.name,
                fmt::format("has label {}, but the detector knows {} classes", largest, class_names.size()),
                "evaluate with images of the classes it was trained on");
  }
  return images.labels;
}

void check_fits(int64_t channels, const std::vector<std::string>& class_names, const TestData& test) {
  check_channels(test.id, channels);
  for (const auto& [name, images] : test.ood) check_channels(images, channels);
  if (test.id.labelled()) labels_among(test.id, class_names);
}

std::vector<ScoredSet> score_sets(const Detector& detector, const std::vector<std::shared_ptr<Score>>& scores,
                                  const TestData& test) {
  check_fits(detector.network->spec().channels, detector.class_names, test);
  std::vector<ScoredSet> sets = {score_images(detector, scores, "id", test.id)};
  for (const auto& [name, images] : test.ood) sets.push_back(score_images(detector, scores, name, images));
  return sets;
}

std::vector<Results> summarise(const std::vector<ScoredSet>& sets, const Detector& detector,
                               const std::vector<std::shared_ptr<Score>>& scores, const ImageSet& id,
                               const std::optional<Balance>& balance) {
  std::optional<double> id_accuracy;
  std::optional<Confusion> confusion;
  if (id.labelled() && sets[0].predicted.defined()) {
    const at::Tensor labels = labels_among(id, detector.class_names);
    id_accuracy = (sets[0].predicted == labels).to(at::kDouble).mean().item<double>();
    if (detector.class_names.size() <= kMostConfused)
      confusion = count_confusions(labels, sets[0].predicted, detector.class_names);
  }
  std::vector<Results> results;
  for (size_t score = 0; score < scores.size(); ++score) {
    const auto scores_of = [&](const ScoredSet& set) {
      return std::vector<double>(set.scores[score].begin(), set.scores[score].end());
    };
    SetScores ood;
    for (size_t i = 1; i < sets.size(); ++i) ood.emplace_back(sets[i].name, scores_of(sets[i]));
    results.push_back(results_of(*scores[score], scores_of(sets[0]), ood, balance));
    results.back().id_accuracy = id_accuracy;
    results.back().confusion = confusion;
    if (scores[score] == detector.score && detector.threshold)
      results.back().at_threshold = count_at_threshold(sets, score, detector);
  }
  return results;
}

std::vector<Results> evaluate(const Detector& detector, const std::vector<std::shared_ptr<Score>>& scores,
                              const TestData& test, const std::optional<Balance>& balance) {
  return summarise(score_sets(detector, scores, test), detector, scores, test.id, balance);
}

Results evaluate(const Detector& detector, const std::string& score, const TestData& test) {
  return evaluate(detector, fit_scores({score}, detector, std::nullopt), test).front();
}

}  // namespace poem
