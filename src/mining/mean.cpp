// The posterior's mean instead of a draw: what is left of POEM without Thompson sampling.
#include <ATen/ATen.h>

#include "mining/blocks.h"

namespace poem {
namespace {

class MeanMiner : public Miner {
 public:
  bool uses_posterior() const override { return true; }

  PoolScores score(const MiningTask& task) const override {
    return boundary_scores(task, task.posterior->mean().unsqueeze(1));
  }
};

}  // namespace

std::unique_ptr<Miner> make_mean_miner() { return std::make_unique<MeanMiner>(); }

}  // namespace poem
