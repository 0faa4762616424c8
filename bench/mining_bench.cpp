// An epoch's mining with clusters beside Thompson sampling: the network's features are the same, so the ratio
// says what clustering costs. And mining in two stages beside one: what the first stage saves.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <string>

#include "compare.h"
#include "images/device_images.h"
#include "images/pool.h"
#include "poem/mining.h"
#include "poem/network.h"
#include "train/feature_extractor.h"

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

// Cutting crops and the network, as in a training: a quarter of the work for all, the network for 10 % as
// candidates and 10 % as samples. What is found depends on the training (docs/scale.md).
POEM_BENCH(stages) {
  constexpr int64_t kPool = 10000;
  const ImageSet images{"noise", at::randint(256, {kPool, 3, 32, 32}, at::kByte), {}, {}};
  const DeviceImages device(images, at::kCPU);
  NetworkSpec spec;
  spec.name = "wideresnet";
  spec.depth = 10;
  const std::shared_ptr<Network> network = make_network(spec, 1);
  const FeatureExtractor extract(*network, at::kCPU, 32, /*bf16=*/false);
  const Posterior prior(Statistics(network->feature_count()), {});
  MiningTask one;
  one.pool = draw_pool(kPool, kPool, 1, 0);
  one.settings.select = kPool / 50;
  one.network.features = [&](const std::vector<Crop>& crops, const FeatureVisit& visit) {
    extract(device, crops, Augmentation{}, visit);
  };
  one.network.first_look = [&](const std::vector<Crop>& crops, const FeatureVisit& visit) {
    extract(device, crops, Augmentation{}, visit, "", Scale::kHalf);
  };
  one.network.first_look_count = network->feature_count();
  one.posterior = &prior;
  MiningTask two = one;
  two.settings.candidates = 0.1;
  const auto miner = make_miner("thompson");
  compare(
      "mining 200 of 10,000, WideResNet-10-1: two stages / one", [&] { keep(mine(*miner, two, {})); },
      [&] { keep(mine(*miner, one, {})); }, 0.9, 3);
}

}  // namespace poem::bench
