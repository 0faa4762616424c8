// Self-supervised learning for OOD detection (SOFL, Mohseni et al. 2020): R reject classes, among which
// outliers sort themselves,
//   CE(ID) + weight · CE(outliers, label), label = argmax if that is a reject class, else a random one.
// Its first stage, cross-entropy on ID alone, is the same loss without outliers (train.pretrain).
#include <ATen/ATen.h>

#include "poem/objective.h"

namespace poem {
namespace {

class Sofl : public Objective {
 public:
  explicit Sofl(const ObjectiveSettings& settings) : settings_(settings) {}

  int64_t outputs(int64_t classes) const override { return classes + settings_.reject_classes; }

  Loss operator()(const at::Tensor& id_logits, const at::Tensor& labels, const at::Tensor& outlier_logits,
                  const at::Tensor& chance) const override {
    const at::Tensor classification = at::cross_entropy_loss(id_logits, labels);
    const int64_t first = outlier_logits.size(1) - settings_.reject_classes;
    const at::Tensor own = outlier_logits.argmax(1);
    const int64_t last = settings_.reject_classes - 1;  // in case chance was rounded up to 1
    const at::Tensor drawn = first + (chance * settings_.reject_classes).to(at::kLong).clamp_max(last);
    const at::Tensor labels_out = at::where(own >= first, own, drawn);
    const at::Tensor rejection =
        mean_of(-at::log_softmax(outlier_logits, 1).gather(1, labels_out.unsqueeze(1)));
    return {classification + *settings_.beta * rejection, classification.detach(), rejection.detach()};
  }

 private:
  ObjectiveSettings settings_;
};

}  // namespace

std::unique_ptr<Objective> make_sofl(const ObjectiveSettings& settings) {
  return std::make_unique<Sofl>(settings);
}

}  // namespace poem
