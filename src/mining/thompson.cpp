// Thompson sampling, the paper's miner: draw w from the posterior, rank the pool by the boundary score
// Ĝ(x) = −|wᵀφ(x)|. Further draws cost one matrix column each and tell how much the draw matters.
#include <ATen/ATen.h>

#include <algorithm>

#include "core/progress.h"
#include "mining/miner.h"

namespace poem {
namespace {

constexpr int64_t kBlock = 2000;  // crops scored at a time
constexpr int64_t kDraws = 8;     // the first selects; the second gives the overlap; all give the spread

class ThompsonMiner : public Miner {
 public:
  bool uses_posterior() const override { return true; }

  PoolScores score(const MiningTask& task) const override {
    Stream stream(task.seed, "weights", task.epoch);
    const at::Tensor weights = task.posterior->draws(stream, kDraws);  // w_t ~ N(σ⁻²A⁻¹Φy, A⁻¹), one a column
    const auto size = static_cast<int64_t>(task.pool.size());
    PoolScores scores;
    scores.logit.resize(size);
    scores.rank.resize(size);
    scores.other.resize(size);
    double spread = 0;
    Progress bar("scoring the pool", size, "images");
    for (int64_t first = 0; first < size; first += kBlock) {
      const int64_t count = std::min(kBlock, size - first);
      const at::Tensor features = task.features(&task.pool[first], count);
      const at::Tensor logits = features.mm(weights.to(features.options())).cpu();  // f(x) = wᵀφ(x)
      spread += logits.std(1).sum().item<double>();
      copy(logits.select(1, 0), scores.logit.data() + first);
      copy(-logits.select(1, 0).abs(), scores.rank.data() + first);
      copy(-logits.select(1, 1).abs(), scores.other.data() + first);
      bar.advance(count);
    }
    scores.spread = spread / static_cast<double>(std::max<int64_t>(size, 1));
    return scores;
  }

 private:
  static void copy(const at::Tensor& column, float* out) {
    const at::Tensor values = column.contiguous();
    std::copy_n(values.data_ptr<float>(), values.numel(), out);
  }
};

}  // namespace

std::unique_ptr<Miner> make_thompson_miner() { return std::make_unique<ThompsonMiner>(); }

}  // namespace poem
