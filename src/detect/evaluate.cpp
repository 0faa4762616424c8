#include "detect/evaluate.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "detect/score.h"
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

}  // namespace

void check_fits(int64_t channels, const std::vector<std::string>& class_names, const ImageSet& id,
                const std::vector<std::pair<std::string, ImageSet>>& ood) {
  check_channels(id, channels);
  for (const auto& [name, images] : ood) check_channels(images, channels);
  if (id.labelled()) labels_among(id, class_names);
}

Results evaluate(const Detector& detector, const std::string& score, const ImageSet& id,
                 const std::vector<std::pair<std::string, ImageSet>>& ood) {
  check_fits(detector.network->spec().channels, detector.class_names, id, ood);
  const at::Tensor id_logits = detector.logits(id);
  const std::vector<float> id_scores = to_floats(score_logits(score, id_logits));
  std::vector<SetResult> sets;
  for (const auto& [name, images] : ood) {
    sets.push_back({name, ood_metrics(id_scores, to_floats(score_logits(score, detector.logits(images))))});
  }
  std::optional<double> id_accuracy;
  if (id.labelled()) {
    id_accuracy =
        (id_logits.argmax(1) == labels_among(id, detector.class_names)).to(at::kDouble).mean().item<double>();
  }
  return make_results(std::move(sets), id_accuracy);
}

}  // namespace poem
