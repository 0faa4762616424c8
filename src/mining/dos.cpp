// Diverse outlier sampling (DOS, Jiang et al. 2024): of each cluster of similar outliers the one that looks
// most like ID to the run's own score. With objective outlier_class and score reject this is the smallest
// p(K+1); with other scores it is not what DOS mines. DOS draws new candidates for every step; here the
// candidates of all steps of an epoch are scored together, each step's in a block of its own.
#include <ATen/ATen.h>

#include "mining/clusters.h"

namespace poem {
namespace {

class DosMiner : public Miner {
 public:
  bool uses_score() const override { return true; }

  PoolScores score(const MiningTask& task) const override {
    ClusteredPool pool = walk_clusters(task, [&](const at::Tensor& features, const at::Tensor&) {
      return task.network.id_score(features).to(features.options()).unsqueeze(1);
    });
    PoolScores scores;
    scores.rank = best_of_clusters(pool, pool.columns[0], task.settings.skip_count(task.pool.size()));
    scores.length = std::move(pool.length);
    scores.cluster = std::move(pool.group);
    return scores;
  }
};

}  // namespace

std::unique_ptr<Miner> make_dos_miner() { return std::make_unique<DosMiner>(); }

}  // namespace poem
