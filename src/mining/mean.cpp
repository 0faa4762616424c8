// The posterior's mean instead of a draw: POEM without Thompson sampling. Draws are made only for the
// diagnostics.
#include <ATen/ATen.h>

#include "mining/boundary.h"

namespace poem {
namespace {

class MeanMiner : public Miner {
 public:
  bool uses_posterior() const override { return true; }

  PoolScores score(const MiningTask& task) const override {
    const at::Tensor mean = task.posterior->mean();
    // The prior's mean is 0 and ranks nothing, so before the first features the choice is random.
    if (!mean.any().item<bool>()) return make_miner("random")->score(task);
    return boundary_scores(task, mean, weight_draws(task));
  }
};

}  // namespace

std::unique_ptr<Miner> make_mean_miner() { return std::make_unique<MeanMiner>(); }

}  // namespace poem
