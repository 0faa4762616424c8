#include "detect/evaluate.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "core/error.h"
#include "detect/score.h"
#include "metrics/metrics.h"

namespace poem {
namespace {

double accuracy(const at::Tensor& logits, const ImageSet& id) {
  const auto classes = logits.size(1), largest = id.labels.max().item<int64_t>();
  if (largest >= classes) {
    throw Error(id.name, fmt::format("has label {}, the detector knows {} classes", largest, classes),
                "evaluate with images of the classes it was trained on");
  }
  return (logits.argmax(1) == id.labels).to(at::kDouble).mean().item<double>();
}

}  // namespace

Results evaluate(const Detector& detector, const std::string& score, const ImageSet& id,
                 const std::vector<std::pair<std::string, ImageSet>>& ood) {
  const at::Tensor id_logits = detector.logits(id);
  const std::vector<float> id_scores = to_floats(score_logits(score, id_logits));
  std::vector<SetResult> sets;
  for (const auto& [name, images] : ood) {
    sets.push_back({name, ood_metrics(id_scores, to_floats(score_logits(score, detector.logits(images))))});
  }
  std::optional<double> id_accuracy;
  if (id.labelled()) id_accuracy = accuracy(id_logits, id);
  return make_results(std::move(sets), id_accuracy);
}

}  // namespace poem
