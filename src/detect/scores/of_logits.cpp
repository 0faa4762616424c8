// Scores that need no more than the logits z: MSP, MaxLogit, Energy, GEN, and the reject probability.
#include <ATen/ATen.h>

#include <algorithm>

#include "detect/score.h"

namespace poem {
namespace {

at::Tensor msp(const Batch& batch) { return batch.logits.softmax(1).amax(1); }

at::Tensor max_logit(const Batch& batch) { return batch.logits.amax(1); }

at::Tensor energy(const Batch& batch) { return batch.logits.logsumexp(1); }

// Generalised entropy (Liu et al. 2023): −Σ pᵞ(1 − p)ᵞ over the M largest p. In float64: what tells confident
// inputs apart is 1 − p.
at::Tensor gen(const Batch& batch) {
  constexpr double kGamma = 0.1;
  constexpr int64_t kTop = 100;
  const at::Tensor p = batch.logits.to(at::kDouble).softmax(1);
  const at::Tensor top = std::get<0>(p.topk(std::min(kTop, p.size(1)), 1));
  return -(top * (1 - top)).pow(kGamma).sum(1).to(at::kFloat);
}

// −Σ of the probabilities of all outputs beyond the classes.
at::Tensor reject(const Batch& batch) {
  const at::Tensor p = at::cat({batch.logits, batch.rejects}, 1).softmax(1);
  return -p.narrow(1, batch.logits.size(1), batch.rejects.size(1)).sum(1);
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
std::unique_ptr<Score> make_energy() { return std::make_unique<OfLogits>(energy); }
std::unique_ptr<Score> make_gen() { return std::make_unique<OfLogits>(gen); }
std::unique_ptr<Score> make_reject() { return std::make_unique<OfLogits>(reject); }

}  // namespace poem
