// The posterior's mean instead of a draw: POEM without Thompson sampling. Draws are made only for the
// diagnostics.
#include <ATen/ATen.h>

#include "mining/boundary.h"

namespace poem {
namespace {

class MeanMiner : public Miner {
 public:
  bool uses_posterior() const override { return true; }
  bool ranks_alone(const MiningTask& task) const override { return knows(task); }

  PoolScores score(const MiningTask& task) const override {
    // Before the first features the choice is random.
    if (!knows(task)) return make_miner("random")->score(task);
    return boundary_scores(task, task.posterior->mean(), weight_draws(task));
  }

 private:
  // The prior's mean is 0 and ranks nothing.
  static bool knows(const MiningTask& task) { return task.posterior->mean().any().item<bool>(); }
};

}  // namespace

std::unique_ptr<Miner> make_mean_miner() { return std::make_unique<MeanMiner>(); }

}  // namespace poem
