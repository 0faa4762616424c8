// The energy of reshaped features or weights: ReAct (Sun et al. 2021), DICE (Sun and Li 2022), ASH-S
// (Djurisic et al. 2023), SCALE (Xu et al. 2024).
#include <ATen/ATen.h>

#include "detect/fit_checks.h"
#include "detect/percentile.h"
#include "poem/objective.h"
#include "poem/scores.h"

namespace poem {
namespace {

// The energy of a changed head of the network.
class Shaped : public Score {
 public:
  void fit(const Training& training) override { head_ = training.head; }

  at::Tensor operator()(const Batch& batch) const override { return -energy(head_(shape(batch.features))); }

 protected:
  virtual at::Tensor shape(const at::Tensor& features) const { return features; }
  State state() override { return {{"weight", &head_.weight}, {"bias", &head_.bias}}; }

  Head head_;
};

// Features are clipped at a percentile of all entries of the training features.
class React : public Shaped {
 public:
  void fit(const Training& training) override {
    Shaped::fit(training);
    limit_ = at::scalar_tensor(percentile(training.features, kPercent), at::kFloat);
  }

 private:
  static constexpr double kPercent = 90;
  at::Tensor shape(const at::Tensor& features) const override { return features.minimum(limit_); }
  State state() override {
    State all = Shaped::state();
    all.emplace_back("limit", &limit_);
    return all;
  }

  at::Tensor limit_;
};

// Only weights that contribute much to the logits of training features stay: W∘mean(h) above a percentile of
// its entries.
class Dice : public Shaped {
 public:
  void fit(const Training& training) override {
    check_lengths(training.features);
    Shaped::fit(training);
    const at::Tensor mean = training.features.mean(0, /*keepdim=*/false, at::kDouble);
    const at::Tensor contribution = (head_.weight * mean).to(at::kFloat);
    const at::Tensor kept = contribution > percentile(contribution, kPercent);
    if (!kept.any().item<bool>()) throw Unfit("no weight contributes more to the logits than the others");
    head_.weight = head_.weight * kept;
  }

 private:
  static constexpr double kPercent = 90;
};

// A row's features, scaled by exp(s₁/s₂): s₁ the sum of all, s₂ of those that reach the row's percentile. ASH
// sets the others to zero.
class Scaled : public Shaped {
 public:
  Scaled(double percent, bool prune) : percent_(percent), prune_(prune) {}

 private:
  at::Tensor shape(const at::Tensor& h) const override {
    const at::Tensor large = h * (h >= row_percentiles(h, percent_).unsqueeze(1));
    const at::Tensor sum = large.sum(1, true);
    // A row of zeros stays as it is.
    const at::Tensor ratio = (h.sum(1, true) / sum).masked_fill(sum == 0, 0);
    return (prune_ ? large : h) * ratio.exp();
  }

  double percent_;
  bool prune_;
};

}  // namespace

std::unique_ptr<Score> make_react() { return std::make_unique<React>(); }
std::unique_ptr<Score> make_dice() { return std::make_unique<Dice>(); }
std::unique_ptr<Score> make_ash() { return std::make_unique<Scaled>(90, /*prune=*/true); }
std::unique_ptr<Score> make_scale() { return std::make_unique<Scaled>(85, /*prune=*/false); }

}  // namespace poem
