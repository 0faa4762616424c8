#include "paper_epochs.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>

#include "images/pool.h"
#include "mining/top_n.h"
#include "poem/random.h"

namespace poem::bench {
namespace {

constexpr int64_t kIds = 50000, kOutliers = 100000, kPool = 400000, kMined = 50000;

Config paper_config(const PaperEpochs& settings) {
  Config config;
  config.data.validation = 0;
  config.mining.pool = kPool;
  config.mining.select = kMined;
  config.posterior.scale = 20;
  config.queue.features = settings.queue == "fresh" ? QueueFeatures::kFresh : QueueFeatures::kStored;
  config.train.epochs = settings.epochs;
  config.train.learning_rate = 0.01;
  config.train.deterministic = settings.deterministic;
  config.train.average = settings.average;
  return config;
}

ImageSet random_images(const std::string& name, int64_t count, int64_t side) {
  // A few random bytes repeated with an odd period: cheap, and no two images are alike.
  const int64_t bytes = count * 3 * side * side, period = (1 << 24) + 43;
  const at::Tensor some = at::empty({period}, at::kByte);
  Stream stream(0, name);
  for (int64_t i = 0; i < period; ++i) some.data_ptr<uint8_t>()[i] = static_cast<uint8_t>(stream.below(256));
  at::Tensor pixels = some.repeat({bytes / period + 1}).narrow(0, 0, bytes).view({count, 3, side, side});
  return {name, pixels.contiguous(), {}, {}};
}

TrainingData random_data(const Config& config) {
  TrainingData data;
  data.id = random_images("random ID images", kIds, 32);
  data.id.labels = at::empty({kIds}, at::kLong);
  Stream stream(0, "labels");
  for (int64_t i = 0; i < kIds; ++i)
    data.id.labels.data_ptr<int64_t>()[i] = static_cast<int64_t>(stream.below(10));
  for (int i = 0; i < 10; ++i) data.id.class_names.push_back(std::to_string(i));
  data.train_rows.resize(kIds);
  std::iota(data.train_rows.begin(), data.train_rows.end(), int64_t{0});
  data.outliers = random_images("random outliers", kOutliers, 64);
  data.id_cut = data.outlier_cut = Augmentation{};
  data.id_cut.size = data.outlier_cut.size = config.data.size;
  return data;
}

at::Tensor features(Network& network, const DeviceImages& images, const Crop* crops, int64_t count,
                    const Augmentation& cut) {
  constexpr int64_t kBlock = 2000;
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> parts;
  for (int64_t i = 0; i < count; i += kBlock)
    parts.push_back(network.features(images.cut(crops + i, std::min(kBlock, count - i), cut)));
  return at::cat(parts);
}

double common_choice(const Trainer& trainer, const TrainingData& data, at::Device device) {
  constexpr int64_t kRows = 5000, kScored = 40000, kBest = kScored / 8;
  Network& network = *trainer.network();
  network.train(false);
  const DeviceImages id(data.id, device), outliers(data.outliers, device);
  const auto pool = draw_pool(data.outliers.size(), kScored, 0, 1000), ids = id_crops(data, 0, 0);
  Statistics statistics(network.feature_count());
  statistics.add(features(network, id, ids.data(), kRows, data.id_cut), at::full({kRows}, -3.0, at::kDouble));
  statistics.add(features(network, outliers, pool.data(), kRows, data.outlier_cut),
                 at::full({kRows}, 3.0, at::kDouble));
  Stream stream(0, "bench");
  const at::Tensor w =
      Posterior(statistics, trainer.config().posterior).draw(stream).to(at::kFloat).to(device);
  const auto best = [&](bool bf16) {
    network.use_bf16(bf16);
    const at::Tensor scores =
        -features(network, outliers, pool.data(), kScored, data.outlier_cut).mv(w).abs().cpu();
    TopN top(kBest);
    top.offer(scores.data_ptr<float>(), kScored, 0);
    return top.take();
  };
  const auto a = best(true), b = best(false);
  std::vector<int64_t> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return static_cast<double>(both.size()) / kBest;
}

}  // namespace

double run_paper_epochs(const PaperEpochs& settings, at::Device device,
                        const std::function<void(const EpochReport&)>& report) {
  const Config config = paper_config(settings);
  const TrainingData data = random_data(config);
  Trainer trainer(config, data, device);
  while (!trainer.done()) report(trainer.run_epoch());
  return common_choice(trainer, data, device);
}

// Fresh: the queued outliers, and the ID images once. Stored: the images trained on, except after the last
// epoch.
PhaseImages paper_images(const PaperEpochs& settings, int64_t epoch) {
  const Config config = paper_config(settings);
  const int64_t held = std::min(epoch - 1, config.queue.epochs);
  const int64_t fresh = held > 0 ? kIds + held * kMined : 0,
                stored = epoch < settings.epochs ? kIds + kMined : 0;
  return {kPool, kIds + kMined, static_cast<double>(settings.queue == "fresh" ? fresh : stored)};
}

}  // namespace poem::bench
