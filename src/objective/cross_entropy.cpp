// Plain classification: −log F_c(x) on ID images. Outliers in the batch are ignored.
#include <ATen/ATen.h>

#include "poem/objective.h"

namespace poem {
namespace {

class CrossEntropy : public Objective {
 public:
  bool needs_outliers() const override { return false; }
  bool uses_outliers() const override { return false; }

  Loss operator()(const at::Tensor& id_logits, const at::Tensor& labels, const at::Tensor&,
                  const at::Tensor&) const override {
    const at::Tensor loss = at::cross_entropy_loss(id_logits, labels);
    return {loss, loss.detach(), at::zeros({}, loss.options())};
  }
};

}  // namespace

std::unique_ptr<Objective> make_cross_entropy(const ObjectiveSettings&) {
  return std::make_unique<CrossEntropy>();
}

}  // namespace poem
