#include "plan/measure.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "core/file.h"
#include "plan/cost.h"
#include "poem/error.h"
#include "poem/objective.h"
#include "poem/random.h"
#include "train/trainer.h"

namespace poem {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

ImageSet random_images(const std::string& name, int64_t count, const Config& config) {
  const int64_t side = config.data.size;
  const auto channels = static_cast<int64_t>(config.network.mean.size());
  at::Tensor pixels = at::empty({count, channels, side, side}, at::kByte);
  Stream stream(0, name);
  auto* bytes = pixels.data_ptr<uint8_t>();
  for (int64_t i = 0; i < pixels.numel(); ++i) bytes[i] = static_cast<uint8_t>(stream.below(256));
  return {name, pixels, {}, {}};
}

TrainingData random_data(const Config& config, int64_t ids) {
  TrainingData data;
  data.id = random_images("random ID images", ids, config);
  data.id.labels = at::arange(ids).remainder(config.network.classes);
  for (int64_t i = 0; i < config.network.classes; ++i) data.id.class_names.push_back(fmt::to_string(i));
  data.train_rows.resize(static_cast<size_t>(ids));
  std::iota(data.train_rows.begin(), data.train_rows.end(), int64_t{0});
  data.outliers = random_images("random outliers", ids, config);
  data.id_cut = data.outlier_cut = Augmentation{};
  data.id_cut.size = data.outlier_cut.size = config.data.size;
  return data;
}

// A training of all weights with one stage of mining, whatever the config chooses: a plan counts the rest.
// Random pixels with random labels must not diverge, so no weight moves.
Config plain_training(const Config& given, int64_t steps, int64_t pool) {
  constexpr int64_t kEpochs = 4;  // nothing is queued after the last one
  Config config = given;
  config.weights.clear();
  config.mining = MiningSettings();
  config.mining.pool = pool;
  config.mining.select = steps * config.train.outlier_batch;
  config.queue = QueueSettings();
  config.posterior = PosteriorSettings();
  config.objective = ObjectiveSettings();
  config.objective.name = given.objective.name;
  config.objective.reject_classes = given.objective.reject_classes;
  config.objective.components = given.objective.components;
  config.objective.density_rate = 0;
  config.train.epochs = kEpochs;
  config.train.pretrain = 0;
  config.train.freeze = Freeze::kNothing;
  config.train.learning_rate = 0;
  return config;
}

// The third epoch: the first has no posterior and sets up kernels and memory, and with it the second may
// still grow the heap.
EpochReport third_epoch(const Config& given, int64_t steps, int64_t pool, at::Device device) {
  const Config config = plain_training(given, steps, pool);
  const TrainingData data = random_data(config, steps * config.train.batch);
  Trainer trainer(config, data, device);
  EpochReport report;
  for (int epoch = 1; epoch <= 3; ++epoch) report = trainer.run_epoch();
  return report;
}

// Bytes per second of a file that no memory holds any more.
double disk_speed(const std::string& folder) {
  constexpr int64_t kBytes = int64_t{1} << 28, kPart = int64_t{1} << 22;
  const std::string path =
      (std::filesystem::path(folder) / fmt::format("poem-bench-{}", ::getpid())).string();
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) throw Error(folder, "cannot be written", "name another folder");
  ::unlink(path.c_str());
  std::string part(kPart, 'x');
  bool good = true;
  for (int64_t done = 0; done < kBytes && good; done += kPart)
    good = ::write(file, part.data(), part.size()) == static_cast<ssize_t>(kPart);
  good = good && ::fsync(file) == 0 && ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0;
  const auto start = Clock::now();
  for (int64_t done = 0; done < kBytes && good; done += kPart)
    good = ::pread(file, part.data(), part.size(), done) == static_cast<ssize_t>(kPart);
  const double seconds = seconds_since(start);
  ::close(file);
  if (!good) throw Error(folder, fmt::format("has no room for {} MiB", kBytes >> 20), "name another folder");
  return static_cast<double>(kBytes) / seconds;
}

// Seconds of the sum of so many numbers over the team: the median of some repetitions.
double sum_seconds(int64_t numbers, at::Device device, const Team& team) {
  constexpr int kWarmUp = 3, kTimes = 21;
  const at::Tensor tensor = at::zeros({numbers}, at::TensorOptions(at::kFloat).device(device));
  std::vector<double> seconds;
  for (int i = 0; i < kWarmUp + kTimes; ++i) {
    const auto start = Clock::now();
    team.sum(tensor);
    tensor[0].item<float>();  // waits for a GPU
    if (i >= kWarmUp) seconds.push_back(seconds_since(start));
  }
  std::nth_element(seconds.begin(), seconds.begin() + kTimes / 2, seconds.end());
  return seconds[kTimes / 2];
}

// So that the plan's formula for a sum (plan/cost.cpp) gives the seconds that were measured.
void measure_links(Machine& machine, at::Device device, const Team& team) {
  constexpr int64_t kNumbers = 1 << 20;  // those of a bucket of gradients
  constexpr double kBytes = 4 * kNumbers;
  if (team.size() == 1) return;
  const auto ranks = static_cast<double>(team.size());
  const double one = sum_seconds(1, device, team), many = sum_seconds(kNumbers, device, team);
  const bool one_host = team.size() <= team.local_size();
  (one_host ? machine.link_latency : machine.host_latency) = one / (2 * std::log2(ranks));
  (one_host ? machine.link : machine.host_link) =
      2 * (ranks - 1) / ranks * kBytes / std::max(many - one, many / 2);
  machine.devices_per_host = team.local_size();
}

}  // namespace

NetworkSpeed measure_network(const Config& config, at::Device device) {
  const bool gpu = device.is_cuda();
  const int64_t steps = gpu ? 200 : 8;
  const int64_t pool = (gpu ? 400 : 16) * (config.train.batch + config.train.outlier_batch);
  NetworkSpeed speed;
  speed.network = fmt::format("{}, depth {}, at {}×{}", config.network.name, config.network.depth,
                              config.data.size, config.data.size);
  speed.multiply_adds = multiply_adds(*planned_network(config), config.data.size);
  const EpochReport report = third_epoch(config, steps, pool, device);
  speed.forward = static_cast<double>(pool) / report.mine_seconds;
  const int64_t images = config.train.batch * make_objective(config.objective)->views();
  speed.train = static_cast<double>(steps * (images + config.train.outlier_batch)) / report.train_seconds;
  Config smallest = config;
  smallest.train.batch = smallest.train.outlier_batch = 2;  // BatchNorm needs more than one image
  speed.step =
      third_epoch(smallest, steps, /*pool=*/4 * steps, device).train_seconds / static_cast<double>(steps);
  return speed;
}

Machine measure_machine(const Config& config, at::Device device, const std::string& folder,
                        const Team& team) {
  Machine machine;
  const int threads = at::get_num_threads();
  machine.name = device.is_cuda()
                     ? "this GPU"
                     : fmt::format("CPU with {} thread{} per process", threads, threads == 1 ? "" : "s");
  machine.note = team.size() == 1
                     ? "measured by poem bench"
                     : fmt::format("measured by poem bench on {} processes at the same time", team.size());
  machine.networks = {measure_network(config, device)};
  measure_links(machine, device, team);
  if (team.first()) machine.disk = disk_speed(folder);
  return machine;
}

}  // namespace poem
