#include "plan/measure.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/file.h"
#include "plan/cost.h"
#include "poem/config.h"
#include "temporary_folder.h"

namespace poem {
namespace {

// Whatever a config mines and trains, its network is measured in the same way: keys that fit the user's pool
// need not fit that of the measurement.
TEST(MeasureNetwork, TakesEveryConfig) {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", R"(
data: {train: "world:train:32", outliers: "world:outliers:90", size: 8}
network: {name: wideresnet, depth: 10}
train: {batch: 2, outlier_batch: 2}
)");
  using Set = std::vector<std::string>;
  for (const Set& set :
       {Set{"mining.candidates=0.01"},
        Set{"mining.skip=0.95"},
        Set{"mining.max_per_image=1", "train.outlier_batch=16"},
        Set{"mining.random=0.9", "mining.skip=0.9"},
        Set{"mining.first=random", "mining.until=1"},
        Set{"mining.miner=dos"},
        Set{"mining.miner=diverse"},
        Set{"mining.miner=random"},
        Set{"mining.miner=none", "objective.name=supcon", "score=knn"},
        Set{"mining.miner=logit", "objective.name=outlier_class", "score=reject"},
        Set{"objective.name=sofl", "score=energy"},
        Set{"objective.name=ccu", "score=msp", "objective.components=3", "objective.density_learning_rate=1"},
        Set{"objective.beta=1e20"},
        Set{"objective.m_in=-1e30"},
        Set{"posterior.prior_variance=1e12", "posterior.noise_variance=1e-12"},
        Set{"queue.features=fresh"},
        Set{"queue.epochs=1000"},
        Set{"train.pretrain=7", "train.warmup=5"},
        Set{"train.average=0.9"},
        Set{"train.freeze=backbone", "network.init=absent.pth"},
        Set{"train.learning_rate=1000"},
        Set{"train.momentum=1", "train.weight_decay=1"},
        Set{"train.epochs=1"},
        Set{"outliers.fit=resize", "outliers.filters=[gaussian]"},
        Set{"network.name=mlp", "network.hidden=[4]"},
        Set{"network.mean=[100]", "network.std=[60]"},
        Set{"train.batch=1", "train.outlier_batch=1"}}) {
    SCOPED_TRACE(set[0]);
    const Config config = read_config(folder / "c.yaml", set);
    NetworkSpeed speed;
    EXPECT_NO_THROW(speed = measure_network(config, at::kCPU));
    EXPECT_GT(speed.forward, 0);
    EXPECT_GT(speed.train, 0);
    EXPECT_GT(speed.step, 0);
    EXPECT_EQ(speed.multiply_adds, workload_of(config, *planned_network(config), 28).multiply_adds);
  }
}

}  // namespace
}  // namespace poem
