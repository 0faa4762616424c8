// LogitNorm (Wei et al. 2022): cross-entropy on logits of fixed length, CE(z / (τ ‖z‖)). The network cannot
// become more confident just by scaling its logits.
#include <ATen/ATen.h>

#include "poem/objective.h"

namespace poem {
namespace {

class LogitNorm : public Objective {
 public:
  explicit LogitNorm(const ObjectiveSettings& settings) : temperature_(settings.temperature) {}

  bool needs_outliers() const override { return false; }
  bool uses_outliers() const override { return false; }

  Loss operator()(const at::Tensor& id_logits, const at::Tensor& labels, const at::Tensor&,
                  const at::Tensor&) const override {
    const at::Tensor length = id_logits.norm(2, 1, true).clamp_min(1e-7);
    const at::Tensor loss = at::cross_entropy_loss(id_logits / (temperature_ * length), labels);
    return {loss, loss.detach(), at::zeros({}, loss.options())};
  }

 private:
  double temperature_;
};

}  // namespace

std::unique_ptr<Objective> make_logit_norm(const ObjectiveSettings& settings) {
  return std::make_unique<LogitNorm>(settings);
}

}  // namespace poem
