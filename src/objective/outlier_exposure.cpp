// Outlier Exposure (Hendrycks et al. 2019) draws the softmax of outliers towards the uniform
// distribution:
//   CE(ID) + λ · mean over outliers of (lse(z) − mean(z)).
#include <ATen/ATen.h>

#include "poem/objective.h"

namespace poem {
namespace {

class OutlierExposure : public Objective {
 public:
  explicit OutlierExposure(const ObjectiveSettings& settings) : settings_(settings) {}

  Loss operator()(const at::Tensor& id_logits, const at::Tensor& labels, const at::Tensor& outlier_logits,
                  const at::Tensor&) const override {
    const at::Tensor classification = at::cross_entropy_loss(id_logits, labels);
    const at::Tensor to_uniform = mean_of(at::logsumexp(outlier_logits, 1) - outlier_logits.mean(1));
    return {classification + *settings_.beta * to_uniform, classification.detach(), to_uniform.detach()};
  }

 private:
  ObjectiveSettings settings_;
};

}  // namespace

std::unique_ptr<Objective> make_outlier_exposure(const ObjectiveSettings& settings) {
  return std::make_unique<OutlierExposure>(settings);
}

}  // namespace poem
