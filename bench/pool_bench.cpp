// Mining from a pool of shards on disk: memory, throughput beside the same images in memory, and whether the
// time per image stays the same as the pool grows. The network is the cheapest there is, so that reading
// weighs as much as it can; what reading costs a training, the demo's network tells. POOL_IMAGES=4000000
// measures pools of up to 12 GB, in TMPDIR. Limit the memory to less than that (systemd-run --scope -p
// MemoryMax=3G), or most of what differs between the sizes is how the system fills its cache.
#include <ATen/ATen.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "compare.h"
#include "core/memory.h"
#include "images/device_images.h"
#include "images/pool.h"
#include "poem/mining.h"
#include "poem/network.h"
#include "poem/read.h"
#include "readers/shards.h"
#include "train/feature_extractor.h"

namespace poem::bench {
namespace {

namespace fs = std::filesystem;

// Shards of noise that are deleted at the end. A process of its own writes them, so that its heap does not
// count.
struct Pool {
  explicit Pool(int64_t images)
      : folder((fs::temp_directory_path() / fmt::format("poem_pool_{}", ::getpid())).string()) {
    const pid_t child = ::fork();
    if (child == 0) {
      write(images);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (status != 0) throw std::runtime_error("the pool cannot be written to " + folder);
  }
  void write(int64_t images) const {
    ShardedWriter writer(folder, uint64_t{1} << 30, /*append=*/false);
    constexpr int64_t kBlock = 10000;
    for (int64_t first = 0; first < images; first += kBlock)
      writer.add(at::randint(256, {std::min(kBlock, images - first), 3, 32, 32}, at::kByte));
    writer.finish({});
  }
  ~Pool() { fs::remove_all(folder); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Makes the system forget what it has read, so that the next walk reads from the disk. Where a pool does
  // not fit into memory the system forgets by itself.
  void evict() const {
    const std::vector<std::string> paths = shard_paths(folder);
    uint64_t bytes = 0;
    for (const std::string& path : paths) bytes += fs::file_size(path);
    if (bytes > available_memory()) return;
    for (const std::string& path : paths) {
      const int file = ::open(path.c_str(), O_RDONLY);
      ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
      ::close(file);
    }
  }
  std::string folder;
};

double mega_of(const std::string& key) {
  std::ifstream lines("/proc/self/status");
  for (std::string line; std::getline(lines, line);)
    if (line.rfind(key + ":", 0) == 0) return std::stod(line.substr(key.size() + 1)) / 1000;
  return 0;
}

// The most that the process holds while it lives, above what it held before: memory of its own, and pages of
// files, which the system can take back at any time.
class Peak {
 public:
  Peak() : own_(mega_of("RssAnon")), files_(mega_of("RssFile")), thread_([this] { watch(); }) {}
  ~Peak() { stop(); }
  double own() { return stop(), own_peak_ - own_; }
  double files() { return stop(), files_peak_ - files_; }

 private:
  void watch() {
    while (!done_) {
      own_peak_ = std::max(own_peak_, mega_of("RssAnon"));
      files_peak_ = std::max(files_peak_, mega_of("RssFile"));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  void stop() {
    done_ = true;
    if (thread_.joinable()) thread_.join();
  }
  double own_, files_, own_peak_ = 0, files_peak_ = 0;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

class Mining {
 public:
  explicit Mining(const NetworkSpec& spec) : network_(make_network(spec, 1)) {}

  // Mines 50,000 (or half) of `count` images from `first` on, each once.
  void operator()(const ImageSet& images, int64_t first, int64_t count) const {
    const DeviceImages device(images, at::kCPU);
    const FeatureExtractor extract(*network_, at::kCPU, 32, /*bf16=*/false);
    MiningTask task;
    task.pool = draw_pool(count, count, 1, 0);
    for (Crop& crop : task.pool) crop.image += first;
    task.settings.select = std::min<int64_t>(50000, count / 2);
    task.network.features = [&](const std::vector<Crop>& crops, const FeatureVisit& visit) {
      extract(device, crops, Augmentation{}, visit);
    };
    const Posterior prior(Statistics(network_->feature_count()), {});
    task.posterior = &prior;
    keep(mine(*make_miner("thompson"), task, {}));
  }

 private:
  std::shared_ptr<Network> network_;
};

NetworkSpec smallest() {
  NetworkSpec spec;
  spec.name = "mlp";
  spec.pixels = 32 * 32;
  spec.hidden = {32};
  spec.classes = 11;
  return spec;
}

NetworkSpec of_demo() {
  NetworkSpec spec;
  spec.name = "wideresnet";
  spec.depth = 10;
  spec.classes = 11;
  return spec;
}

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Seconds per image.
struct Times {
  std::vector<double> clock, processor;
};

// Of pools of `count` images each, one after the other.
void time_mining(const Mining& mining, const ImageSet& images, int64_t first, int64_t count, int64_t pools,
                 Times& times) {
  const auto start = std::chrono::steady_clock::now();
  const double processor_start = processor_seconds();
  for (int64_t i = 0; i < pools; ++i) mining(images, first + i * count, count);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const auto all = static_cast<double>(count * pools);
  times.clock.push_back(took.count() / all);
  times.processor.push_back((processor_seconds() - processor_start) / all);
}

// From disk, where nothing is cached, and from memory: the same images, in turn.
struct DiskAndMemory {
  Times disk, memory;
};

DiskAndMemory compare_places(const Mining& mining, const Pool& pool, const ImageSet& mapped, int64_t count,
                             int rounds) {
  const ImageSet copy{"memory", mapped.pixels.narrow(0, 0, count).clone(), {}, {}};
  DiskAndMemory times;
  for (int round = 0; round < rounds; ++round) {
    pool.evict();
    time_mining(mining, mapped, 0, count, 1, times.disk);
    time_mining(mining, copy, 0, count, 1, times.memory);
  }
  return times;
}

}  // namespace

POEM_BENCH(pool) {
  constexpr int kRounds = 5;
  const char* asked = std::getenv("POOL_IMAGES");
  const int64_t largest = asked != nullptr ? std::atoll(asked) : 400000;
  std::vector<int64_t> sizes;
  for (const int64_t size : {100000, 1000000})
    if (size < largest) sizes.push_back(size);
  sizes.push_back(largest);
  const Pool pool(largest);
  const Mining mining(smallest());
  const ImageSet mapped = read_images(pool.folder);
  {
    Peak peak;
    pool.evict();
    mining(mapped, 0, largest);
    hold_figure(fmt::format("memory of mining from {} images on disk", largest), peak.own(), "MB", 1000);
    hold_figure("and pages of the file that are mapped at a time", peak.files(), "MB", 1000);
  }
  // Of small pools as many as have a million images together. Where there are more images, other ones every
  // time, so that no cache outside this machine favours the small pools.
  std::vector<Times> by_size(sizes.size());
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      pool.evict();
      const int64_t pools = std::max<int64_t>(1, std::min<int64_t>(1000000, largest) / sizes[i]);
      const int64_t first = (largest - pools * sizes[i]) / kRounds * round;
      time_mining(mining, mapped, first, sizes[i], pools, by_size[i]);
    }
  }
  std::vector<double> clocks;
  for (size_t i = 0; i < sizes.size(); ++i) {
    clocks.push_back(median(by_size[i].clock));
    fmt::print("  {} images: {:.1f} µs per image, {:.1f} µs of processor time\n", sizes[i], 1e6 * clocks[i],
               1e6 * median(by_size[i].processor));
  }
  const auto [least, most] = std::minmax_element(clocks.begin(), clocks.end());
  hold("an image of the slowest of these pools / of the fastest", *most, *least, 1.1);

  constexpr int64_t kPart = 100000;
  const DiskAndMemory demo = compare_places(Mining(of_demo()), pool, mapped, std::min(largest, kPart), 3);
  hold("the demo's network: mining from disk, not cached / from memory", median(demo.disk.clock),
       median(demo.memory.clock), 1 / 0.9);
  const DiskAndMemory least_work =
      compare_places(mining, pool, mapped, std::min(largest, 4 * kPart), kRounds);
  fmt::print("  the smallest MLP: {:.1f} and {:.1f} µs per image\n", 1e6 * median(least_work.disk.clock),
             1e6 * median(least_work.memory.clock));
}

}  // namespace poem::bench
