#include "detect/features.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <map>
#include <vector>

#include "core/error.h"
#include "core/npy.h"
#include "core/text.h"
#include "detect/evaluate.h"
#include "detect/fit.h"

namespace poem {
namespace {

// Not defined where the images have no labels, or classes that the detector does not know, as outliers may.
at::Tensor known_labels(const Detector& detector, const ImageSet& images) {
  if (!images.labelled()) return {};
  try {
    return labels_among(images, detector.class_names);
  } catch (const Error& unknown) {
    spdlog::info("no labels are written: {}", unknown.what());
    return {};
  }
}

}  // namespace

std::string write_features(const std::string& path, const Detector& detector, const ImageSet& images) {
  check_channels(images, detector.network->spec().channels);
  std::map<std::string, at::Tensor> arrays;
  if (const at::Tensor labels = known_labels(detector, images); labels.defined()) arrays["labels"] = labels;
  if (const Head head = head_of(detector); head.weight.defined()) {
    arrays["weight"] = head.weight;
    arrays["bias"] = head.bias;
  }
  std::vector<at::Tensor> features, logits;
  detector.for_each_batch(images, [&](const Batch& batch) {
    features.push_back(batch.features);
    logits.push_back(batch.logits);
  });
  arrays["features"] = at::cat(features);
  if (detector.network->classifies()) arrays["logits"] = at::cat(logits);
  write_npz(path, arrays);
  std::vector<std::string> names;
  for (const auto& [name, array] : arrays) names.push_back(name);
  return fmt::format("{} rows of {} features; arrays: {}", images.size(), detector.network->feature_count(),
                     listed(names));
}

}  // namespace poem
