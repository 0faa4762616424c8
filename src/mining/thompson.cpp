// Thompson sampling, the paper's miner: draw w from the posterior, rank the pool by the boundary score
// Ĝ(x) = −|wᵀφ(x)|. Further draws cost one matrix column each and show how much the draw matters.
#include <ATen/ATen.h>

#include "mining/boundary.h"

namespace poem {
namespace {

class ThompsonMiner : public Miner {
 public:
  bool uses_posterior() const override { return true; }
  bool ranks_alone(const MiningTask&) const override { return true; }

  PoolScores score(const MiningTask& task) const override {
    const at::Tensor draws = weight_draws(task);  // w_t ~ N(σ⁻²A⁻¹Φy, A⁻¹), one per column
    return boundary_scores(task, draws.select(1, 0), draws);
  }
};

}  // namespace

std::unique_ptr<Miner> make_thompson_miner() { return std::make_unique<ThompsonMiner>(); }

}  // namespace poem
