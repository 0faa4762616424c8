// Energy-regularised classification, the paper's objective:
//   −log F_c(x) + β · [ E_in max(0, E(x) − m_in)² + E_out max(0, m_out − E(x))² ]
#include <ATen/ATen.h>

#include "poem/objective.h"

namespace poem {
namespace {

class Energy : public Objective {
 public:
  explicit Energy(const ObjectiveSettings& settings) : settings_(settings) {}

  bool needs_outliers() const override { return false; }

  Loss operator()(const at::Tensor& id_logits, const at::Tensor& labels, const at::Tensor& outlier_logits,
                  const at::Tensor&) const override {
    const at::Tensor classification = at::cross_entropy_loss(id_logits, labels);
    const at::Tensor regularisation = mean_of(at::relu(energy(id_logits) - settings_.m_in).square()) +
                                      mean_of(at::relu(settings_.m_out - energy(outlier_logits)).square());
    return {classification + *settings_.beta * regularisation, classification.detach(),
            regularisation.detach()};
  }

 private:
  ObjectiveSettings settings_;
};

}  // namespace

std::unique_ptr<Objective> make_energy(const ObjectiveSettings& settings) {
  return std::make_unique<Energy>(settings);
}

}  // namespace poem
