#include "detect/evaluate.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "detect/fit.h"
#include "metrics/metrics.h"

namespace poem {
namespace {

// Whether the names are no more than 0, 1, 2, …: the source had labels but no names for them.
bool unnamed(const std::vector<std::string>& class_names) {
  for (size_t i = 0; i < class_names.size(); ++i) {
    if (class_names[i] != std::to_string(i)) return false;
  }
  return true;
}

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
    throw Error(images.name, fmt::format("has a class '{}' that the detector does not know", unknown),
                "it knows " + listed(class_names));
  }
  const int64_t largest = images.labels.max().item<int64_t>();
  if (largest >= static_cast<int64_t>(class_names.size())) {
    throw Error(images.name,
                fmt::format("has label {}, the detector knows {} classes", largest, class_names.size()),
                "evaluate with images of the classes it was trained on");
  }
  return images.labels;
}

using Scores = std::vector<std::vector<float>>;  // one list a score

// All scores of the images from one forward pass; the most likely class of each, in blocks, if asked for.
Scores score_images(const Detector& detector, const std::vector<std::shared_ptr<Score>>& scores,
                    const ImageSet& images, std::vector<at::Tensor>* labels = nullptr) {
  Scores result(scores.size());
  detector.for_each_batch(images, [&](const Batch& batch) {
    if (labels && detector.network->classifies()) labels->push_back(batch.logits.argmax(1));
    for (size_t i = 0; i < scores.size(); ++i) {
      const std::vector<float> block = to_floats((*scores[i])(batch));
      result[i].insert(result[i].end(), block.begin(), block.end());
    }
  });
  return result;
}

}  // namespace

void check_fits(int64_t channels, const std::vector<std::string>& class_names, const ImageSet& id,
                const std::vector<std::pair<std::string, ImageSet>>& ood) {
  check_channels(id, channels);
  for (const auto& [name, images] : ood) check_channels(images, channels);
  if (id.labelled()) labels_among(id, class_names);
}

std::vector<Results> evaluate(const Detector& detector, const std::vector<std::shared_ptr<Score>>& scores,
                              const ImageSet& id, const std::vector<std::pair<std::string, ImageSet>>& ood,
                              const std::optional<Balance>& balance) {
  check_fits(detector.network->spec().channels, detector.class_names, id, ood);
  std::vector<at::Tensor> labels;
  const Scores id_scores = score_images(detector, scores, id, &labels);
  std::optional<double> id_accuracy;
  if (id.labelled() && detector.network->classifies()) {
    const at::Tensor right = at::cat(labels) == labels_among(id, detector.class_names);
    id_accuracy = right.to(at::kDouble).mean().item<double>();
  }
  std::vector<std::vector<SetResult>> sets(scores.size());
  for (const auto& [name, images] : ood) {
    const Scores ood_scores = score_images(detector, scores, images);
    for (size_t i = 0; i < scores.size(); ++i)
      sets[i].push_back({name, ood_metrics(id_scores[i], ood_scores[i], balance)});
  }
  std::vector<Results> results;
  for (std::vector<SetResult>& of_score : sets)
    results.push_back(make_results(std::move(of_score), id_accuracy));
  return results;
}

Results evaluate(const Detector& detector, const std::string& score, const ImageSet& id,
                 const std::vector<std::pair<std::string, ImageSet>>& ood) {
  return evaluate(detector, fit_scores({score}, detector, std::nullopt), id, ood).front();
}

}  // namespace poem
