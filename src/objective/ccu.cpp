// Certified certain uncertainty (CCU, Meinke and Hein 2020). The network (net/density.cpp) outputs log p̂_1 …
// log p̂_K, which already lean towards 1/K where outliers are more likely, and log p_in and log p_out of its
// two densities:
//   ½ (CE(p̂) − log p_mix(x_in)) + ½ (−mean_k log p̂_k(x_out) − log p_mix(x_out)),  p_mix = ½ p_in + ½ p_out,
// with the authors' λ = 1.
#include <ATen/ATen.h>

#include <cmath>

#include "poem/objective.h"

namespace poem {
namespace {

class Ccu : public Objective {
 public:
  HeadKind head() const override { return HeadKind::kDensity; }
  int64_t outputs(int64_t classes) const override { return classes + 2; }

  Loss operator()(const at::Tensor& id_logits, const at::Tensor& labels, const at::Tensor& outlier_logits,
                  const at::Tensor&) const override {
    const at::Tensor classification = at::nll_loss(classes(id_logits), labels);
    const at::Tensor uniformity = mean_of(-classes(outlier_logits).mean(1));
    const at::Tensor density = mean_of(log_mixture(id_logits)) + mean_of(log_mixture(outlier_logits));
    const at::Tensor total = 0.5 * (classification + uniformity - density);
    return {total, classification.detach(), uniformity.detach()};
  }

 private:
  static at::Tensor classes(const at::Tensor& outputs) { return outputs.narrow(1, 0, outputs.size(1) - 2); }
  static at::Tensor log_mixture(const at::Tensor& outputs) {
    return at::logaddexp(outputs.select(1, -2), outputs.select(1, -1)) - std::log(2.0);
  }
};

}  // namespace

std::unique_ptr<Objective> make_ccu(const ObjectiveSettings&) { return std::make_unique<Ccu>(); }

}  // namespace poem
