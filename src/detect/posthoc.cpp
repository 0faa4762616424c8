#include "detect/posthoc.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "core/array_file.h"
#include "core/finite.h"
#include "core/interrupts.h"
#include "core/npy.h"
#include "core/progress.h"
#include "poem/error.h"
#include "poem/mine_features.h"

namespace poem {
namespace {

constexpr int64_t kBlock = 2048;  // rows scored at a time

Head read_head(const std::string& path) {
  const auto arrays = open_npz(path);
  const auto array = [&](const char* name) {
    const auto found = arrays.find(name);
    if (found == arrays.end()) {
      throw Error(path, fmt::format("has no array '{}'", name),
                  "numpy.savez('head.npz', weight=..., bias=...) saves the last layer");
    }
    return found->second.read();
  };
  return make_head(path, array("weight"), array("bias"));
}

// One part of a head, in float32.
at::Tensor head_part(const std::string& where, const char* name, const at::Tensor& array,
                     int64_t dimensions) {
  if (array.dim() != dimensions || !array.is_floating_point() || array.numel() == 0) {
    throw Error(where,
                fmt::format("{} has shape {} of {}", name, fmt::join(array.sizes(), "×"), numpy_type(array)),
                "weight is classes × features and bias classes, both floats");
  }
  const at::Tensor values = array.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true).contiguous();
  if (!at::isfinite(values).all().item<bool>()) {
    throw Error(where, fmt::format("{} contains a value that is not finite in float32", name),
                "correct its computation, or rescale it");
  }
  return values;
}

// An Error if rounding to float32, in which scores are computed, changes a feature by more than a thousandth
// of its spread, which is the standard deviation of the training rows: figures of such a feature mean
// nothing.
void check_rounding(const std::string& path, const at::Tensor& exact, const at::Tensor& spread) {
  constexpr double kShare = 1e-3;
  at::Tensor squares = at::zeros_like(spread);
  for (const at::Tensor& rows : exact.split(kBlock))
    squares += (rows - rows.to(at::kFloat).to(at::kDouble)).square().sum(0);
  const at::Tensor error = (squares / exact.size(0)).sqrt();
  const at::Tensor lost = (error > kShare * spread).logical_and(spread > 0).nonzero();
  if (lost.size(0) == 0) return;
  const auto feature = lost[0][0].item<int64_t>();
  throw Error(path,
              fmt::format("feature {} varies by {:.2g} over the training rows and loses {:.2g} in float32",
                          feature, spread[feature].item<double>(), error[feature].item<double>()),
              "subtract its mean, in all files and from the head's bias too: scores are computed in float32");
}

}  // namespace

Head make_head(const std::string& where, const at::Tensor& weight, const at::Tensor& bias) {
  const Head head{head_part(where, "weight", weight, 2), head_part(where, "bias", bias, 1)};
  if (head.weight.size(0) != head.bias.size(0)) {
    throw Error(where,
                fmt::format("weight has {} rows and bias {} values", head.weight.size(0), head.bias.size(0)),
                "give one row and one value per class");
  }
  return head;
}

at::Tensor make_labels(const std::string& where, const at::Tensor& labels, int64_t rows, int64_t classes) {
  if (labels.dim() != 1 || labels.is_floating_point() || labels.scalar_type() == at::kBool) {
    throw Error(where, fmt::format("has {} dimensions of {}", labels.dim(), numpy_type(labels)),
                "give one integer per training row");
  }
  if (labels.size(0) != rows) {
    throw Error(where, fmt::format("has {} labels for {} training rows", labels.size(0), rows),
                "give one label per row");
  }
  const at::Tensor outside = (labels.lt(0) | labels.ge(classes)).nonzero();
  if (outside.size(0) > 0) {
    const auto row = outside[0][0].item<int64_t>();
    const auto label = labels[row].item<int64_t>();
    const std::string beyond = label < 0 ? "" : fmt::format(", but the head has {} classes", classes);
    throw Error(where, fmt::format("row {} has label {}{}", row, label, beyond), "number the classes from 0");
  }
  return labels.to(at::kLong);
}

at::Tensor spread_of(const at::Tensor& features) {
  return features.to(at::promoteTypes(features.scalar_type(), at::kFloat)).std(0, false).to(at::kDouble);
}

at::Tensor make_features(const std::string& where, const at::Tensor& exact, const at::Tensor& spread) {
  check_finite(where, exact, "remove the row or correct its source");
  if (exact.scalar_type() != at::kDouble) return exact.to(at::kFloat);
  const at::Tensor features = exact.to(at::kFloat);
  check_finite(where, features, "rescale the features: scores are computed in float32");
  if (spread.defined()) check_rounding(where, exact, spread);
  return features;
}

FeatureData read_feature_data(const FeaturePaths& paths) {
  FeatureData data;
  data.head = read_head(paths.head);
  const int64_t width = data.head.weight.size(1);
  at::Tensor spread;
  const auto read = [&](const std::string& path) {
    const at::Tensor exact = read_features(path, width);
    if (!spread.defined()) spread = spread_of(exact);
    return make_features(path, exact, spread);
  };
  data.train = read(paths.train);
  data.labels = make_labels(paths.labels, read_array(paths.labels, "labels"), data.train.size(0),
                            data.head.weight.size(0));
  data.id = read(paths.id);
  for (const auto& [name, path] : paths.ood) data.ood.emplace_back(name, read(path));
  return data;
}

std::vector<std::unique_ptr<Score>> fit_scores(const std::vector<std::string>& names,
                                               const FeatureData& data) {
  Training training;
  training.features = data.train;
  training.labels = data.labels;
  training.head = data.head;
  std::vector<std::unique_ptr<Score>> scores;
  const std::vector<std::string> chosen = choose_scores(names, kPosthocNeeds);
  for (const std::string& name : chosen) {
    stop_if_interrupted();
    scores.push_back(make_fitted_score(name, training, chosen.size() == 1));
  }
  return scores;
}

std::vector<at::Tensor> score_features(const std::vector<std::unique_ptr<Score>>& scores, const Head& head,
                                       const at::Tensor& features) {
  std::vector<std::vector<at::Tensor>> blocks(scores.size());
  Progress bar("scoring", features.size(0), "rows");
  for (const at::Tensor& block : features.split(kBlock)) {
    stop_if_interrupted();
    const at::Tensor logits = head(block);
    const Batch batch{logits, logits.narrow(1, 0, 0), block, {}, nullptr};
    for (size_t i = 0; i < scores.size(); ++i) blocks[i].push_back((*scores[i])(batch));
    bar.advance(block.size(0));
  }
  std::vector<at::Tensor> all;
  for (const auto& of_score : blocks) all.push_back(at::cat(of_score));
  return all;
}

}  // namespace poem
