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

MemoryNeed pool_need(const Config& config, const std::vector<PoolPart>& parts, const Processes& processes) {
  return {"mining.pool", fmt::format("{} crops", config.mining.pool), "lower it",
          pool_bytes(parts, scoring_of(config.mining), processes.all)};
}

// Per image of a process's part, beside the crop. Miners that compare outliers (mining/clusters.cpp) have the
// pool's order, its crops in this order, and cluster, group, length and one or three columns, both in that
// order and in the pool's. Others (mining/boundary.cpp) have four scores, and ten columns on the device.
// Without a posterior there are two scores at most, and the entries of the pool when they are described.
double scoring_bytes(const PoolScoring& scoring) {
  constexpr double kFloat = sizeof(float), kEntry = sizeof(int64_t), kCrop = sizeof(Crop);
  if (scoring.features && !scoring.shared)
    return kEntry + kCrop + 2 * (2 * kEntry + kFloat + (scoring.posterior ? 3 : 1) * kFloat);
  if (scoring.posterior) return (4 + 10) * kFloat;
  return 2 * kFloat + kEntry;
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

PoolScoring scoring_of(const MiningSettings& settings) {
  const std::unique_ptr<Miner> miner = make_miner(settings.miner);
  return {miner->uses_features(), takes_candidates(*miner), miner->uses_posterior(), settings.candidates};
}

// Every process draws the whole pool, of which sample() in core/random.cpp has a table of hashes and a list.
// Crops of several sources are then put together. Of its part a process has a copy (mining/shard.cpp). With
// two stages (mining/two_stages.cpp) it has the entries, the crops, whose list grows, and the scores of the
// candidates; then their entries and scores, the scores spread out over all images, and one more copy of the
// part. At last the labels of the pool are counted.
double pool_bytes(const std::vector<PoolPart>& parts, const PoolScoring& scoring, double processes) {
  constexpr double kFloat = sizeof(float), kEntry = sizeof(int64_t), kCrop = sizeof(Crop), kDraw = 56;
  double pool = 0, drawing = 0;
  for (const PoolPart& part : parts) {
    // The images that have one crop more than others.
    const double drawn = part.images > 0 ? std::fmod(part.crops, part.images) : 0;
    drawing = std::max(drawing, kCrop * pool + kDraw * drawn);
    pool += part.crops;
  }
  if (parts.size() > 1) drawing = std::max(drawing, 2 * kCrop * pool);
  const double scores = scoring_bytes(scoring), c = scoring.candidates;
  const double candidates = c * (kEntry + 2 * kCrop + scores),
               spread = kCrop + (scoring.posterior ? 3 + 4 * c : 2 + 2 * c) * kFloat + c * kEntry;
  const double each = c == 1 ? scores : std::max(candidates, spread);
  const double scored = pool / (scoring.shared ? processes : 1);
  return std::max({drawing, kCrop * pool + scored * (kCrop + each), (kCrop + kEntry) * pool});
}

void check_memory(const Config& config, const Network& network, const Processes& processes) {
  constexpr double kDouble = sizeof(double), kCrop = sizeof(Crop);
  std::vector<MemoryNeed> needs = {network_need(config, network)};
  if (config.mining.miner != "none") {
    const bool posterior = make_miner(config.mining.miner)->uses_posterior();
    const auto select = static_cast<double>(config.mining.select);
    needs.push_back(pool_need(config, {{static_cast<double>(config.mining.pool), 0}}, processes));
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
  const std::vector<int64_t> counts = pool_counts(outliers, config.mining.pool);
  if (counts.empty() || config.mining.miner == "none") return;
  const double scored = scoring_of(config.mining).shared ? 1.0 / processes.all : 1,
               share = std::min(1.0, scored + 1.0 / processes.all);
  std::vector<PoolPart> parts;
  for (size_t i = 0; i < counts.size(); ++i)
    parts.push_back({static_cast<double>(counts[i]), static_cast<double>(outliers.parts()[i].images.size())});
  std::vector<MemoryNeed> needs = {pool_need(config, parts, processes)};
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
