// The outliers that look most like ID to the run's own score. With objective outlier_class and score reject
// this is NTOM (Chen et al. 2021): smallest p(K+1) first, after a share mining.skip of the pool was skipped.
#include <ATen/ATen.h>

#include "mining/boundary.h"

namespace poem {
namespace {

class GreedyMiner : public Miner {
 public:
  bool uses_score() const override { return true; }
  bool ranks_alone(const MiningTask&) const override { return true; }

  PoolScores score(const MiningTask& task) const override {
    PoolScores scores;
    scores.rank.resize(task.pool.size());
    task.network.features(task.pool, [&](int64_t first, const at::Tensor& features) {
      copy_scores(task.network.id_score(features), scores.rank, first);
    });
    return scores;
  }
};

}  // namespace

std::unique_ptr<Miner> make_greedy_miner() { return std::make_unique<GreedyMiner>(); }

}  // namespace poem
