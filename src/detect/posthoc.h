// Scores from the saved features of any network: what `poem posthoc` computes.
//
//   FeatureData data = read_feature_data(paths);
//   auto scores = fit_scores({"knn", "vim"}, data);
//   at::Tensor id = score_features(scores, data.head, data.id)[0];
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/named_path.h"
#include "poem/scores.h"

namespace poem {

constexpr unsigned kPosthocNeeds =
    kTraining | kClasses | kLinear | kHead;  // Needs that saved features and a head meet

struct FeaturePaths {
  std::string train, labels, head, id;
  std::vector<NamedPath> ood;
};

struct FeatureData {
  at::Tensor train, labels;  // float32 N×m, int64 N
  Head head;
  at::Tensor id;  // float32 n×m
  std::vector<std::pair<std::string, at::Tensor>> ood;
};

// Features as read_features() takes them; labels integers from 0 to K − 1, of an .npz `labels`; the head an
// .npz with `weight` (K×m) and `bias` (K). What is not finite or does not fit together is an Error.
FeatureData read_feature_data(const FeaturePaths& paths);

// The parts of it from arrays, which `where` names in Errors. The head is a copy.
Head make_head(const std::string& where, const at::Tensor& weight, const at::Tensor& bias);
at::Tensor make_labels(const std::string& where, const at::Tensor& labels, int64_t rows, int64_t classes);

// Features in float32. Rounding that takes more than a small share of `spread`, which is spread_of() the
// training features, is an Error; an undefined `spread` allows any.
at::Tensor make_features(const std::string& where, const at::Tensor& features, const at::Tensor& spread);
at::Tensor spread_of(const at::Tensor& features);  // standard deviations, float64 m

// Fitted on the training features and the head, which is all they see. The names as in choose_scores(); what
// cannot be fitted as in make_fitted_score().
std::vector<std::unique_ptr<Score>> fit_scores(const std::vector<std::string>& names,
                                               const FeatureData& data);

// The scores of every row, one float32 tensor per score.
std::vector<at::Tensor> score_features(const std::vector<std::unique_ptr<Score>>& scores, const Head& head,
                                       const at::Tensor& features);

}  // namespace poem
