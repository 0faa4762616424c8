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

void check_channels(int64_t channels, const ImageSet& images) {
  if (images.channels() != channels) {
    throw Error(images.name,
                fmt::format("has {} channels, the network takes {}", images.channels(), channels),
                "convert the images");
  }
}

// Whether the names are no more than 0, 1, 2, …: the source had labels but no names for them.
bool unnamed(const std::vector<std::string>& class_names) {
  for (size_t i = 0; i < class_names.size(); ++i) {
    if (class_names[i] != std::to_string(i)) return false;
  }
  return true;
}

// The labels as positions in `class_names`. Classes are matched by name, so that a test folder may lack some
// of them; labels without names are taken as positions.
at::Tensor labels_among(const ImageSet& images, const std::vector<std::string>& class_names) {
  const auto known = static_cast<int64_t>(class_names.size());
  if (images.class_names == class_names || unnamed(images.class_names)) {
    const int64_t largest = images.labels.max().item<int64_t>();
    if (largest < known) return images.labels;
    throw Error(images.name, fmt::format("has label {}, the detector knows {} classes", largest, known),
                "evaluate with images of the classes it was trained on");
  }
  at::Tensor positions = at::empty({static_cast<int64_t>(images.class_names.size())}, at::kLong);
  for (size_t i = 0; i < images.class_names.size(); ++i) {
    const auto found = std::find(class_names.begin(), class_names.end(), images.class_names[i]);
    if (found == class_names.end()) {
      throw Error(images.name,
                  fmt::format("has a class '{}' that the detector does not know", images.class_names[i]),
                  "it knows " + listed(class_names));
    }
    positions[static_cast<int64_t>(i)] = static_cast<int64_t>(found - class_names.begin());
  }
  return positions.index_select(0, images.labels);
}

}  // namespace

void check_fits(int64_t channels, const std::vector<std::string>& class_names, const ImageSet& id,
                const std::vector<std::pair<std::string, ImageSet>>& ood) {
  check_channels(channels, id);
  for (const auto& [name, images] : ood) check_channels(channels, images);
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
