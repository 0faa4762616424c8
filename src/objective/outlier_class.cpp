// One more class for outliers, the objective of NTOM and of POEM (K+1):
//   CE(ID) + weight · CE(outliers, class K+1), each term averaged over its own images.
#include <ATen/ATen.h>

#include "poem/objective.h"

namespace poem {
namespace {

class OutlierClass : public Objective {
 public:
  explicit OutlierClass(const ObjectiveSettings& settings) : settings_(settings) {}

  int64_t outputs(int64_t classes) const override { return classes + 1; }

  Loss operator()(const at::Tensor& id_logits, const at::Tensor& labels, const at::Tensor& outlier_logits,
                  const at::Tensor&) const override {
    const at::Tensor classification = at::cross_entropy_loss(id_logits, labels);
    const at::Tensor rejection = mean_of(-at::log_softmax(outlier_logits, 1).select(1, -1));
    return {classification + *settings_.beta * rejection, classification.detach(), rejection.detach()};
  }

 private:
  ObjectiveSettings settings_;
};

}  // namespace

std::unique_ptr<Objective> make_outlier_class(const ObjectiveSettings& settings) {
  return std::make_unique<OutlierClass>(settings);
}

}  // namespace poem
