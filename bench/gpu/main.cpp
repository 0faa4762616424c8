// An epoch of the paper's setting on one GPU, phase by phase: DenseNet-BC-100-12, 64 + 64 images a step, a
// pool of 400,000 crops of which 50,000 are mined, a queue of 4 epochs. Images are random, which changes no
// time.
//
//   poem_gpu_bench [fresh|stored] [EPOCHS]   (default: fresh, 6: the queue is full in the last)
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <numeric>

#include "core/runtime.h"
#include "data/pool.h"
#include "mining/select.h"
#include "train/trainer.h"

namespace poem {
namespace {

// Counted: what the network must move through device memory at 4.3 TB/s (docs/performance.md).
constexpr double kForwardFloor = 400000, kTrainFloor = 100000;  // images/s

Config paper_config(const std::string& queue, int64_t epochs) {
  Config config;
  config.data.validation = 0;
  config.mining.select = 50000;
  config.posterior.scale = 20;
  config.queue.features = queue;
  config.train.epochs = epochs;
  config.train.learning_rate = 0.01;
  return config;
}

ImageSet random_images(const std::string& name, int64_t count, int64_t side) {
  // A few random bytes repeated with an odd period: cheap, and no two images are alike.
  const int64_t bytes = count * 3 * side * side, period = (1 << 24) + 43;
  const at::Tensor some = at::randint(0, 256, {period}, at::kByte);
  at::Tensor pixels = some.repeat({bytes / period + 1}).narrow(0, 0, bytes).view({count, 3, side, side});
  return {name, pixels.contiguous(), {}, {}};
}

TrainingData random_data(const Config& config) {
  TrainingData data;
  data.id = random_images("random ID images", 50000, 32);
  data.id.labels = at::randint(0, 10, {50000}, at::kLong);
  for (int i = 0; i < 10; ++i) data.id.class_names.push_back(std::to_string(i));
  data.train_rows.resize(50000);
  std::iota(data.train_rows.begin(), data.train_rows.end(), int64_t{0});
  data.outliers = random_images("random outliers", 100000, 64);
  data.id_cut = data.outlier_cut = Augmentation{};
  data.id_cut.size = data.outlier_cut.size = config.data.size;
  return data;
}

void print_row(const std::string& phase, double seconds, double images, double floor_seconds,
               double authors) {
  fmt::print("{:<34} {:8.2f} {:10.0f} {:9.0f} % {:9.1f} {:8.1f}\n", phase, seconds, images / seconds,
             100 * floor_seconds / seconds, authors, authors / seconds);
}

void print_epoch(const EpochReport& report, const Config& config) {
  const bool fresh = config.queue.features == "fresh";
  if (!fresh && report.epoch == config.train.epochs) return;  // nothing is stored after the last epoch
  const double queued = fresh ? 50000 + 50000.0 * std::min<int64_t>(report.epoch - 1, 4) : 100000;
  const double authors_queue = fresh ? 45 : 11.3;
  fmt::print("\nepoch {}, loss {:.3f}\n{:<34} {:>8} {:>10} {:>11} {:>9} {:>8}\n", report.epoch, report.loss,
             "phase", "s", "images/s", "of floor", "authors s", "ratio");
  const double pool = static_cast<double>(config.mining.pool), trained = 100000;
  print_row("score the pool, select", report.mine_seconds, pool, pool / kForwardFloor, 67.7);
  print_row("train", report.train_seconds, trained, trained / kTrainFloor, 122.0);
  print_row("queue (" + config.queue.features + ") and posterior", report.queue_seconds, queued,
            queued / kForwardFloor, authors_queue);
  print_row("epoch", report.mine_seconds + report.train_seconds + report.queue_seconds,
            pool + trained + queued, (pool + queued) / kForwardFloor + trained / kTrainFloor,
            67.7 + 122.0 + authors_queue);
  std::fflush(stdout);
}

// How many of the best eighth of a pool bfloat16 and float32 scoring share, with w from the posterior.
void print_overlap(Trainer& trainer, const TrainingData& data, at::Device device) {
  constexpr int64_t kRows = 5000, kPool = 40000, kBest = kPool / 8, kBlock = 2000;
  Network& network = *trainer.network();
  network.train(false);
  const at::NoGradGuard no_grad;
  const DeviceImages id(data.id, device), outliers(data.outliers, device);
  const auto pool = draw_pool(data.outliers.size(), kPool, 0, 1000);
  const auto features = [&](const DeviceImages& images, const Crop* crops, int64_t count) {
    std::vector<at::Tensor> parts;
    for (int64_t i = 0; i < count; i += kBlock)
      parts.push_back(network.features(images.cut(crops + i, std::min(kBlock, count - i), data.id_cut)));
    return at::cat(parts);
  };
  Statistics statistics(network.feature_count());
  const auto id_rows = id_crops(data, 0, 0);
  statistics.add(features(id, id_rows.data(), kRows), at::full({kRows}, -3.0, at::kDouble));
  statistics.add(features(outliers, pool.data(), kRows), at::full({kRows}, 3.0, at::kDouble));
  Stream stream(0, "bench");
  const at::Tensor w =
      Posterior(statistics, trainer.config().posterior).draw(stream).to(at::kFloat).to(device);
  const auto best = [&](bool bf16) {
    network.use_bf16(bf16);
    const at::Tensor scores = (-features(outliers, pool.data(), kPool).mv(w).abs()).cpu();
    TopN top(kBest);
    top.offer(scores.data_ptr<float>(), kPool, 0);
    return top.take();
  };
  const auto a = best(true), b = best(false);
  std::vector<int64_t> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  fmt::print("\nbest {} of {} by bfloat16 and by float32: {:.1f} % in common\n", kBest, kPool,
             100.0 * static_cast<double>(both.size()) / kBest);
}

void run(const std::string& queue, int64_t epochs) {
  set_up_runtime(0);
  const at::Device device = pick_device("cuda");
  const Config config = paper_config(queue, epochs);
  const TrainingData data = random_data(config);
  Trainer trainer(config, data, device);
  trainer.run([&](const EpochReport& report) { print_epoch(report, config); }, [] {});
  print_overlap(trainer, data, device);
}

}  // namespace
}  // namespace poem

int main(int argc, char** argv) {
  try {
    poem::run(argc > 1 ? argv[1] : "fresh", argc > 2 ? std::atoi(argv[2]) : 6);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "poem_gpu_bench: {}\n", error.what());
    return 1;
  }
}
