#include "poem/fit.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "poem/error.h"

namespace poem {
namespace {

at::Tensor features_of(const Detector& detector, const ImageSet& images) {
  std::vector<at::Tensor> blocks = {at::empty({0, detector.network->feature_count()})};
  detector.for_each_batch(images, [&](const Batch& batch) { blocks.push_back(batch.features); });
  return at::cat(blocks);
}

// All but the features, which take a forward pass.
Training training_of(const Detector& detector, const std::optional<IdImages>& images) {
  Training training;
  training.head = head_of(detector);
  training.classes = static_cast<int64_t>(detector.class_names.size());
  training.network = detector.network.get();
  training.size = detector.size;
  if (!images) return training;
  training.labels = images->train.labels;
  training.images = images->train;
  training.held_out = images->held_out;
  return training;
}

}  // namespace

Head head_of(const Detector& detector) {
  const auto classes = static_cast<int64_t>(detector.class_names.size());
  Head head;
  if (detector.network->spec().head != HeadKind::kLinear) return head;
  for (const auto& [name, tensor] : detector.network->parameters()) {
    if (name == "linear.weight") head.weight = tensor.detach().narrow(0, 0, classes).cpu();
    if (name == "linear.bias") head.bias = tensor.detach().narrow(0, 0, classes).cpu();
  }
  return head;
}

unsigned available(const Detector& detector, const std::optional<IdImages>& images) {
  const auto classes = static_cast<int64_t>(detector.class_names.size());
  unsigned found = kNetwork;
  if (detector.network->classifies()) found |= kClasses;
  if (detector.network->spec().head == HeadKind::kLinear) {
    found |= kLinear | kHead;
    if (detector.network->spec().classes > classes) found |= kRejects;
  }
  if (images) found |= kTraining;
  // One half of them to fit on, the other to tell how good the fit is.
  if (images && images->held_out.pixels.defined() && images->held_out.size() >= 2) found |= kHeldOut;
  return found;
}

std::vector<std::shared_ptr<Score>> fit_scores(const std::vector<std::string>& names,
                                               const Detector& detector,
                                               const std::optional<IdImages>& images) {
  const at::NoGradGuard no_grad;  // layers of all training images would keep their graphs alive
  const std::string own = detector.score ? detector.score->name() : "";
  const std::vector<std::string> chosen = choose_scores(names, available(detector, images), own);
  detector.network->train(false);
  Training training = training_of(detector, images);
  if (std::any_of(chosen.begin(), chosen.end(),
                  [&](const std::string& name) { return name != own && needs(name, kTraining); }))
    training.features = features_of(detector, images->train);
  std::vector<std::shared_ptr<Score>> scores;
  for (const std::string& name : chosen) {
    scores.push_back(name == own ? detector.score : make_fitted_score(name, training, chosen.size() == 1));
  }
  return scores;
}

}  // namespace poem
