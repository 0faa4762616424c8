// Outliers at random: the paper's baseline Energy (w. D_aux).
#include "poem/random.h"
#include "poem/mining.h"

namespace poem {
namespace {

class RandomMiner : public Miner {
 public:
  bool uses_features() const override { return false; }
  PoolScores score(const MiningTask& task) const override {
    Stream stream(task.seed, "random-miner", task.epoch);
    PoolScores scores;
    for (size_t i = 0; i < task.pool.size(); ++i) scores.rank.push_back(static_cast<float>(stream.uniform()));
    return scores;
  }
};

}  // namespace

std::unique_ptr<Miner> make_random_miner() { return std::make_unique<RandomMiner>(); }

}  // namespace poem
