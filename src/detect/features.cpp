#include "detect/features.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <vector>

#include "core/npy.h"
#include "core/text.h"
#include "poem/error.h"
#include "poem/evaluate.h"
#include "poem/fit.h"

namespace poem {
namespace {

// Undefined if the images have no labels, or classes that the detector does not know, as outliers may have.
at::Tensor known_labels(const Detector& detector, const ImageSet& images) {
  if (!images.labelled()) return {};
  try {
    return labels_among(images, detector.class_names);
  } catch (const Error& unknown) {
    spdlog::info("no labels are written: {}", unknown.what());
    return {};
  }
}

// Each name in a row of bytes, padded with zeros, which no name contains: NumPy views the rows as its bytes
// ("S").
at::Tensor to_rows(const ImageNames& names) {
  size_t longest = 1;
  for (int64_t i = 0; i < names.size(); ++i) longest = std::max(longest, names[i].size());
  const at::Tensor rows = at::zeros({names.size(), static_cast<int64_t>(longest)}, at::kByte);
  for (int64_t i = 0; i < names.size(); ++i)
    std::copy(names[i].begin(), names[i].end(), rows.data_ptr<uint8_t>() + i * rows.size(1));
  return rows;
}

}  // namespace

std::string write_features(const std::string& path, const Detector& detector, const ImageSet& images) {
  check_channels(images, detector.network->spec().channels);
  std::map<std::string, at::Tensor> arrays;
  if (const at::Tensor labels = known_labels(detector, images); labels.defined()) arrays["labels"] = labels;
  if (!images.names.empty()) arrays["names"] = to_rows(images.names);
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
