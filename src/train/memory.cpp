#include "train/memory.h"

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "core/memory.h"
#include "images/pool.h"
#include "poem/crops.h"
#include "poem/error.h"
#include "poem/mining.h"
#include "poem/objective.h"
#include "train/feature_extractor.h"
#include "train/network_setup.h"

namespace poem {
namespace {

// What a part of a training takes, and the key that decides it.
struct MemoryNeed {
  std::string key, what, remedy;
  double bytes;
};

std::string size_text(double bytes) {
  constexpr double kMega = 1 << 20, kGiga = 1 << 30;
  return bytes < kGiga ? fmt::format("{:.0f} MiB", bytes / kMega) : fmt::format("{:.1f} GiB", bytes / kGiga);
}

// All of them are there at once, in every process of this computer. To blame is the first that has
// no room even alone, since what others need may grow with it; else the largest.
void check_needs(const std::vector<MemoryNeed>& needs, int processes) {
  double sum = 0;
  for (const MemoryNeed& need : needs) sum += need.bytes;
  const auto free = static_cast<double>(available_memory());
  if (sum * processes <= free) return;
  auto blamed = std::find_if(needs.begin(), needs.end(),
                             [&](const MemoryNeed& need) { return need.bytes * processes > free; });
  if (blamed == needs.end()) {
    blamed = std::max_element(needs.begin(), needs.end(),
                              [](const MemoryNeed& a, const MemoryNeed& b) { return a.bytes < b.bytes; });
  }
  throw Error(
      blamed->key,
      fmt::format("{} need about {} of memory{}, {} are free", blamed->what, size_text(blamed->bytes),
                  processes == 1 ? "" : fmt::format(" in each of {} processes", processes), size_text(free)),
      blamed->remedy);
}

// The share of a pool that a process scores.
double part_of_pool(const Config& config, int processes) {
  return takes_candidates(*make_miner(config.mining.miner)) ? 1.0 / processes : 1;
}

double numbers(const Network::Named& tensors) {
  double count = 0;
  for (const auto& [name, tensor] : tensors) count += static_cast<double>(tensor.numel());
  return count;
}

// Parameters: weights, gradients, velocities, and the copy that a checkpoint is written from; with an
// average of the weights, that and the network that has it. A miner that uses the posterior also needs the
// features of a block of images, and the posterior's precision with its factor.
MemoryNeed network_need(const Config& config, const Network& network) {
  constexpr double kFloat = sizeof(float), kDouble = sizeof(double);
  constexpr auto kBlock = static_cast<double>(FeatureExtractor::kBlock);
  const double parameters = numbers(network.parameters()), buffers = numbers(network.buffers());
  const auto m = static_cast<double>(network.feature_count());
  double bytes = kFloat * (4 * parameters + 2 * buffers);
  if (config.train.average > 0) bytes += kFloat * (2 * parameters + buffers);
  if (config.mining.miner != "none" && make_miner(config.mining.miner)->uses_posterior())
    bytes += 2 * kFloat * kBlock * m + 2 * kDouble * m * m;
  const std::string& name = config.network.name;
  return {name == "mlp" ? "network.hidden" : "network.name",
          fmt::format("{:.0f} parameters and {:.0f} features per image of {}", parameters, m, name),
          "choose a smaller network", bytes};
}

// Adds up what the CPU's allocator reports about this thread's tensors.
class PeakReporter : public c10::MemoryReportingInfoBase {
 public:
  // LibTorch 2.x counts in size_t.
  void reportMemoryUsage(void*, int64_t bytes, int64_t, int64_t, c10::Device) { add(bytes); }
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) { add(bytes); }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t peak() const { return peak_; }

 private:
  void add(int64_t bytes) {
    now_ += bytes;
    peak_ = std::max(peak_, now_);
  }
  int64_t now_ = 0, peak_ = 0;
};

}  // namespace

int64_t peak_bytes(const std::function<void()>& work) {
  const auto reporter = std::make_shared<PeakReporter>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, reporter);
  work();
  return reporter->peak();
}

void check_memory(const Config& config, const Network& network, const Processes& processes) {
  constexpr double kFloat = sizeof(float), kDouble = sizeof(double), kCrop = sizeof(Crop);
  std::vector<MemoryNeed> needs = {network_need(config, network)};
  if (config.mining.miner != "none") {
    const bool posterior = make_miner(config.mining.miner)->uses_posterior();
    const auto pool = static_cast<double>(config.mining.pool),
               select = static_cast<double>(config.mining.select);
    constexpr double kDraws = 9;  // columns of wᵀφ that are kept of every crop (mining/boundary.cpp)
    const double scored = pool * part_of_pool(config, processes.all);
    needs.push_back({"mining.pool", fmt::format("{} crops", config.mining.pool), "lower it",
                     pool * kCrop + scored * (3 * kFloat + (posterior ? kDraws * kFloat : 0))});
    needs.push_back({"mining.select", fmt::format("{} outliers", config.mining.select), "lower it",
                     select * (4 * kCrop + 2 * kDouble)});
    if (posterior) {
      const auto m = static_cast<double>(network.feature_count());
      const bool fresh = config.queue.features == QueueFeatures::kFresh;
      needs.push_back(
          {"queue.epochs", fmt::format("{} epochs", config.queue.epochs), "lower it",
           static_cast<double>(config.queue.epochs) * (fresh ? kCrop * select : kDouble * m * m)});
    }
  }
  check_needs(needs, processes.here);
}

// An image may touch one page more than it fills. No part takes more than all its images do. A process draws
// those that it scores, and those that it trains on, which may be others.
void check_drawing_memory(const Config& config, const Mixture& outliers, const Processes& processes) {
  const auto page = static_cast<double>(::sysconf(_SC_PAGESIZE));
  const int64_t until = config.mining.until, epochs = config.train.epochs;
  const auto mined = static_cast<double>(until == 0 ? epochs : std::min(epochs, until));
  const double share = config.mining.miner == "none"
                           ? 1
                           : std::min(1.0, part_of_pool(config, processes.all) + 1.0 / processes.all);
  const std::vector<int64_t> counts = pool_counts(outliers, config.mining.pool);
  std::vector<MemoryNeed> needs;
  for (size_t i = 0; i < counts.size(); ++i) {
    const MixturePart& part = outliers.parts()[i];
    if (!part.lazy) continue;
    const auto all = static_cast<double>(part.images.pixels.nbytes()),
               most = static_cast<double>(part.lazy->most_bytes()),
               size = static_cast<double>(part.images.size());
    const double drawn = std::min(size, mined * share * static_cast<double>(counts[i]));
    needs.push_back({"data.outliers", fmt::format("{:.0f} images of {}", drawn, part.images.name),
                     "use fewer images, or lower mining.pool or train.epochs",
                     std::min(most, drawn * (all / size + page))});
  }
  check_needs(needs, processes.here);
}

// Two small steps tell what an image takes. Large images are scaled from small ones: what a convolution
// leaves grows with their pixels, and a step on them would take minutes.
void check_step_memory(const Config& config, const NetworkSpec& spec, int64_t id_images,
                       const Processes& processes) {
  constexpr int64_t kFew = 2, kSide = 32;
  const auto objective = make_objective(config.objective);
  const int64_t size = config.data.size, side = spec.name == "mlp" ? size : std::min(size, kSide);
  const auto network = training_network(config, spec);
  const auto step = [&](int64_t images) {
    return static_cast<double>(peak_bytes([&] {
      network->logits(network->features(at::zeros({images, spec.channels, side, side}, at::kByte)))
          .sum()
          .backward();
      for (const auto& [name, parameter] : network->parameters()) parameter.mutable_grad().reset();
    }));
  };
  const double few = step(kFew), each = (step(2 * kFew) - few) / kFew;
  const double ids = static_cast<double>(std::min(config.train.batch, id_images));
  const double share = config.mining.miner == "none" ? 0
                                                     : static_cast<double>(config.train.outlier_batch) /
                                                           static_cast<double>(config.train.batch);
  const double images = ids * static_cast<double>(objective->views()) + std::ceil(ids * share);
  const double own = std::ceil(images / processes.all);  // every process has its rows of a step
  const double scale = static_cast<double>(size * size) / static_cast<double>(side * side);
  const char* key = ids * share > ids ? "train.outlier_batch" : "train.batch";
  check_needs({{key, fmt::format("steps of {:.0f} images of {}×{} pixels", images, size, size),
                "lower train.batch and train.outlier_batch, or data.size", few + each * own * scale}},
              processes.here);
}

}  // namespace poem
