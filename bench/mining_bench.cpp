// An epoch's mining with clusters beside Thompson sampling: the network's features are the same, so the ratio
// says what clustering costs.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "compare.h"
#include "poem/mining.h"
#include "poem/network.h"

namespace poem::bench {

POEM_BENCH(mining) {
  constexpr int64_t kPool = 1024, kSelect = 128, kAtATime = 512;
  NetworkSpec spec;  // the demo's: clustering weighs more beside a small network
  spec.name = "wideresnet";
  spec.depth = 10;
  spec.width = 1;
  spec.classes = 11;
  const std::shared_ptr<Network> network = make_network(spec, 1);
  network->train(false);
  const at::Tensor images = at::randint(256, {kAtATime, 3, 32, 32}, at::kByte);

  MiningTask task;
  for (int64_t i = 0; i < kPool; ++i) task.pool.push_back({i, static_cast<uint64_t>(i)});
  task.settings.select = kSelect;
  task.network.features = [&](const std::vector<Crop>& crops, const FeatureVisit& visit) {
    const at::NoGradGuard no_grad;
    const auto size = static_cast<int64_t>(crops.size());
    for (int64_t first = 0; first < size; first += kAtATime) {
      const int64_t count = std::min(kAtATime, size - first);
      visit(first, network->features(images.narrow(0, 0, count)));
    }
  };
  task.network.id_score = [&](const at::Tensor& features) {
    const at::NoGradGuard no_grad;
    return -network->logits(features).select(1, -1);
  };
  const Posterior prior(Statistics(network->feature_count()), {});
  task.posterior = &prior;
  for (const char* name : {"diverse", "dos"}) {
    const auto miner = make_miner(name), thompson = make_miner("thompson");
    compare(
        std::string("mining 128 of 1,024, WideResNet-10-1: ") + name + " / thompson",
        [&] { keep(mine(*miner, task, {})); }, [&] { keep(mine(*thompson, task, {})); }, 1.3);
  }
}

}  // namespace poem::bench
