// Scores that need no more than the logits z: MSP, MaxLogit, Energy, GEN, and the odds against rejection,
// with and without the energy.
#include <ATen/ATen.h>

#include <algorithm>

#include "poem/objective.h"
#include "poem/scores.h"

namespace poem {
namespace {

at::Tensor msp(const Batch& batch) { return batch.logits.softmax(1).amax(1); }

at::Tensor max_logit(const Batch& batch) { return batch.logits.amax(1); }

at::Tensor negative_energy(const Batch& batch) { return -energy(batch.logits); }

// Generalised entropy (Liu et al. 2023): −Σ pᵞ(1 − p)ᵞ over the M largest p. In float64: what tells confident
// inputs apart is 1 − p.
at::Tensor gen(const Batch& batch) {
  constexpr double kGamma = 0.1;
  constexpr int64_t kTop = 100;
  const at::Tensor p = batch.logits.to(at::kDouble).softmax(1);
  const at::Tensor top = std::get<0>(p.topk(std::min(kTop, p.size(1)), 1));
  return -(top * (1 - top)).pow(kGamma).sum(1).to(at::kFloat);
}

// log (1 − p)/p, p the probability of all outputs beyond the classes together: the order of −p, which itself
// is −1 in float32 wherever logits are 17 apart, and a miner must tell such outliers from each other.
at::Tensor reject(const Batch& batch) { return batch.logits.logsumexp(1) - batch.rejects.logsumexp(1); }

// (1 + α)E − z with α = ½, E = logsumexp of the classes' logits and z that of the others: `reject`, which
// knows the outliers trained on, and a little of the energy, which knows inputs near the classes.
at::Tensor reject_energy(const Batch& batch) {
  constexpr double kAlpha = 0.5;
  return reject(batch) - kAlpha * energy(batch.logits);
}

class OfLogits : public Score {
 public:
  explicit OfLogits(at::Tensor (*formula)(const Batch&)) : formula_(formula) {}
  at::Tensor operator()(const Batch& batch) const override { return formula_(batch); }

 private:
  at::Tensor (*formula_)(const Batch&);
};

}  // namespace

std::unique_ptr<Score> make_msp() { return std::make_unique<OfLogits>(msp); }
std::unique_ptr<Score> make_maxlogit() { return std::make_unique<OfLogits>(max_logit); }
std::unique_ptr<Score> make_energy() { return std::make_unique<OfLogits>(negative_energy); }
std::unique_ptr<Score> make_gen() { return std::make_unique<OfLogits>(gen); }
std::unique_ptr<Score> make_reject() { return std::make_unique<OfLogits>(reject); }
std::unique_ptr<Score> make_reject_energy() { return std::make_unique<OfLogits>(reject_energy); }

}  // namespace poem
