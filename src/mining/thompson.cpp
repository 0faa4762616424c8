// Thompson sampling, the paper's miner: draw w from the posterior, rank the pool by the boundary score
// Ĝ(x) = −|wᵀφ(x)|. Further draws cost one matrix column each and tell how much the draw matters.
#include <ATen/ATen.h>

#include "mining/blocks.h"

namespace poem {
namespace {

class ThompsonMiner : public Miner {
 public:
  bool uses_posterior() const override { return true; }

  PoolScores score(const MiningTask& task) const override {
    constexpr int64_t kDraws = 8;  // the first selects; the second gives the overlap; all give the spread
    Stream stream(task.seed, "weights", task.epoch);
    return boundary_scores(task,
                           task.posterior->draws(stream, kDraws));  // w_t ~ N(σ⁻²A⁻¹Φy, A⁻¹), a column each
  }
};

}  // namespace

std::unique_ptr<Miner> make_thompson_miner() { return std::make_unique<ThompsonMiner>(); }

}  // namespace poem
