// Supervised contrastive learning (Khosla et al. 2020), with which SSD+ trains its encoder. It compares every
// row i of the normalised outputs u of a projection head with all others; P(i) are the others of its class:
//   mean over i, p ∈ P(i) of −log [exp(u_i·u_p/τ) / Σ_{a≠i} exp(u_i·u_a/τ)]
#include <ATen/ATen.h>

#include <limits>

#include "poem/objective.h"

namespace poem {
namespace {

class SupCon : public Objective {
 public:
  explicit SupCon(const ObjectiveSettings& settings) : settings_(settings) {}

  HeadKind head() const override { return HeadKind::kProjection; }
  int64_t outputs(int64_t) const override { return 128; }
  int64_t views() const override { return 2; }

  bool needs_outliers() const override { return false; }
  bool uses_outliers() const override { return false; }

  Loss operator()(const at::Tensor& id_logits, const at::Tensor& labels, const at::Tensor&,
                  const at::Tensor&) const override {
    const at::Tensor u = id_logits / id_logits.norm(2, 1, true).clamp_min(1e-12);
    const at::Tensor self = at::eye(u.size(0), at::TensorOptions(at::kBool).device(u.device()));
    const at::Tensor similarity =
        (u.mm(u.t()) / settings_.temperature).masked_fill(self, -std::numeric_limits<double>::infinity());
    const at::Tensor same = (labels.unsqueeze(0) == labels.unsqueeze(1)).logical_and(self.logical_not());
    const at::Tensor log_share = at::log_softmax(similarity, 1).masked_fill(self, 0) * same;
    const at::Tensor loss = -(log_share.sum(1) / same.sum(1)).mean();  // two views: P(i) is never empty
    return {loss, loss.detach(), at::zeros({}, loss.options())};
  }

 private:
  ObjectiveSettings settings_;
};

}  // namespace

std::unique_ptr<Objective> make_supcon(const ObjectiveSettings& settings) {
  return std::make_unique<SupCon>(settings);
}

}  // namespace poem
