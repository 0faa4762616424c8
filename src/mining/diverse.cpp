// Thompson sampling within clusters: of each cluster of similar outliers the one nearest to the boundary, by
// a draw of the posterior of its own. Every kind of outlier in the pool is mined, and where the boundary lies
// is drawn many times per epoch rather than once.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "mining/clusters.h"

namespace poem {
namespace {

// −|wᵀφ|
std::vector<float> boundary(const std::vector<float>& logits) {
  std::vector<float> scores(logits.size());
  std::transform(logits.begin(), logits.end(), scores.begin(), [](float f) { return -std::abs(f); });
  return scores;
}

class DiverseMiner : public Miner {
 public:
  bool uses_posterior() const override { return true; }

  PoolScores score(const MiningTask& task) const override {
    // Cluster i of every block has draw i; draw i + 1 tells how much drawing matters.
    const int64_t count = std::max<int64_t>(2, plan_blocks(task).clusters);
    Stream stream(task.seed, "weights", static_cast<uint64_t>(task.epoch));
    const at::Tensor draws = task.posterior->draws(stream, count);
    at::Tensor weights;
    ClusteredPool pool = walk_clusters(task, [&](const at::Tensor& features, const at::Tensor& cluster) {
      if (!weights.defined()) weights = draws.to(features.options());
      const at::Tensor logits = features.narrow(1, 0, weights.size(0)).mm(weights);
      const at::Tensor own = cluster.unsqueeze(1);
      return at::cat({logits.gather(1, own), logits.gather(1, (own + 1).remainder(count)),
                      logits.std(1, /*unbiased=*/true, /*keepdim=*/true)},
                     1);
    });
    const int64_t skipped = task.settings.skip_count(task.pool.size());
    PoolScores scores;
    scores.rank = best_of_clusters(pool, boundary(pool.columns[0]), skipped);
    scores.other = best_of_clusters(pool, boundary(pool.columns[1]), skipped);
    scores.spread = std::accumulate(pool.columns[2].begin(), pool.columns[2].end(), 0.0) /
                    static_cast<double>(task.pool.size());
    scores.logit = std::move(pool.columns[0]);
    scores.length = std::move(pool.length);
    scores.cluster = std::move(pool.group);
    return scores;
  }
};

}  // namespace

std::unique_ptr<Miner> make_diverse_miner() { return std::make_unique<DiverseMiner>(); }

}  // namespace poem
