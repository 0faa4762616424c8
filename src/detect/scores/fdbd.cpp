// fDBD (Liu and Qin 2024): how far a feature lies from the decision boundaries, (z_max − z_c)/‖w_ŷ − w_c‖ on
// average over the other classes, relative to its distance from the mean of the training features.
#include <ATen/ATen.h>

#include <algorithm>

#include "detect/fit_checks.h"
#include "poem/scores.h"

namespace poem {
namespace {

constexpr double kTiny = 1e-12;  // instead of a distance of 0

class Fdbd : public Score {
 public:
  void fit(const Training& training) override {
    check_lengths(training.features);
    mean_ = training.features.mean(0, /*keepdim=*/false, at::kDouble);
    const at::Tensor w = training.head.weight.to(at::kDouble);
    apart_ = at::empty({w.size(0), w.size(0)}, at::kDouble);
    for (int64_t i = 0; i < w.size(0); ++i) apart_[i] = (w - w[i]).norm(2, 1);
  }

  at::Tensor operator()(const Batch& batch) const override {
    const at::Tensor z = batch.logits.to(at::kDouble);
    const auto [largest, label] = z.max(1, /*keepdim=*/true);
    // Two classes of one weight have no boundary between them; nor has a class with itself.
    const at::Tensor apart = apart_.index_select(0, label.squeeze(1));
    const at::Tensor distances = ((largest - z) / apart).masked_fill(apart == 0, 0);
    const at::Tensor spread = (batch.features.to(at::kDouble) - mean_).norm(2, 1).clamp_min(kTiny);
    return (distances.sum(1) / std::max<int64_t>(1, z.size(1) - 1) / spread).to(at::kFloat);
  }

 private:
  State state() override { return {{"mean", &mean_}, {"apart", &apart_}}; }

  at::Tensor mean_, apart_;  // m, and K×K: ‖w_i − w_j‖; float64
};

}  // namespace

std::unique_ptr<Score> make_fdbd() { return std::make_unique<Fdbd>(); }

}  // namespace poem
