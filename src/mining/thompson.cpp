// Thompson sampling, the paper's miner: draw w from the posterior, rank the pool by the boundary score
// Ĝ(x) = −|wᵀφ(x)|. Further draws cost one matrix column each and tell how much the draw matters.
#include <ATen/ATen.h>

#include <algorithm>

#include "core/progress.h"
#include "mining/miner.h"

namespace poem {
namespace {

constexpr int64_t kBlock = 20000;  // crops scored at a time
constexpr int64_t kDraws = 8;      // the first selects; the second gives the overlap; all give the spread

class ThompsonMiner : public Miner {
 public:
  bool uses_posterior() const override { return true; }

  PoolScores score(const MiningTask& task) const override {
    Stream stream(task.seed, "weights", task.epoch);
    at::Tensor weights = task.posterior->draws(stream, kDraws);  // w_t ~ N(σ⁻²A⁻¹Φy, A⁻¹), one a column
    const auto size = static_cast<int64_t>(task.pool.size());
    PoolScores scores;
    scores.logit.resize(size);
    scores.rank.resize(size);
    scores.other.resize(size);
    double spread = 0;
    std::vector<at::Tensor>
        blocks;  // of logits; left on the device till the end, so that no block waits for it
    Progress bar("scoring the pool", size, "images");
    for (int64_t first = 0; first < size; first += kBlock) {
      const int64_t count = std::min(kBlock, size - first);
      const at::Tensor features = task.features(&task.pool[first], count);
      if (first == 0) weights = weights.to(features.options());
      blocks.push_back(features.mm(weights));  // f(x) = wᵀφ(x)
      bar.advance(count);
    }
    for (int64_t first = 0; first < size; first += kBlock) {
      const at::Tensor logits = blocks[first / kBlock].cpu();
      spread += logits.std(1).sum().item<double>();
      copy(logits.select(1, 0), scores.logit.data() + first);
      copy(-logits.select(1, 0).abs(), scores.rank.data() + first);
      copy(-logits.select(1, 1).abs(), scores.other.data() + first);
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
