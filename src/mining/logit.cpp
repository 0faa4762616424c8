// The boundary score −|z_{K+1}| of the network's own output for outliers, without a posterior. This is
// another way to read the paper's appendix on POEM (K+1).
#include <ATen/ATen.h>

#include "mining/boundary.h"

namespace poem {
namespace {

class LogitMiner : public Miner {
 public:
  bool ranks_alone(const MiningTask&) const override { return true; }

  PoolScores score(const MiningTask& task) const override {
    PoolScores scores;
    scores.logit.resize(task.pool.size());
    scores.rank.resize(task.pool.size());
    task.network.features(task.pool, [&](int64_t first, const at::Tensor& features) {
      const at::Tensor logit = task.network.logits(features).select(1, -1);
      copy_scores(logit, scores.logit, first);
      copy_scores(-logit.abs(), scores.rank, first);
    });
    return scores;
  }
};

}  // namespace

std::unique_ptr<Miner> make_logit_miner() { return std::make_unique<LogitMiner>(); }

}  // namespace poem
