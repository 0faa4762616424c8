#include "detect/evaluate.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "core/error.h"
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

}  // namespace

void check_fits(int64_t channels, int64_t classes, const ImageSet& id,
                const std::vector<std::pair<std::string, ImageSet>>& ood) {
  check_channels(channels, id);
  for (const auto& [name, images] : ood) check_channels(channels, images);
  const int64_t largest = id.labelled() ? id.labels.max().item<int64_t>() : 0;
  if (largest >= classes) {
    throw Error(id.name, fmt::format("has label {}, the detector knows {} classes", largest, classes),
                "evaluate with images of the classes it was trained on");
  }
}

Results evaluate(const Detector& detector, const std::string& score, const ImageSet& id,
                 const std::vector<std::pair<std::string, ImageSet>>& ood) {
  const NetworkSpec& spec = detector.network->spec();
  check_fits(spec.channels, spec.classes, id, ood);
  const at::Tensor id_logits = detector.logits(id);
  const std::vector<float> id_scores = to_floats(score_logits(score, id_logits));
  std::vector<SetResult> sets;
  for (const auto& [name, images] : ood) {
    sets.push_back({name, ood_metrics(id_scores, to_floats(score_logits(score, detector.logits(images))))});
  }
  std::optional<double> id_accuracy;
  if (id.labelled()) {
    id_accuracy = (id_logits.argmax(1) == id.labels).to(at::kDouble).mean().item<double>();
  }
  return make_results(std::move(sets), id_accuracy);
}

}  // namespace poem
