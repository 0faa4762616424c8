#include "train/memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>

#include "core/memory.h"
#include "expect_error.h"
#include "poem/crops.h"
#include "poem/error.h"
#include "poem/objective.h"
#include "train/network_setup.h"

namespace poem {
namespace {

Config points() {
  Config config;
  config.data.size = 1;
  config.network.name = "mlp";
  config.network.mean = {0, 0};
  config.network.std = {1, 1};
  return config;
}

NetworkSpec spec_of(const Config& config) { return likely_spec(config, *make_objective(config.objective)); }

void check(const Config& config, const Processes& processes = {}) {
  check_memory(config, *make_network(spec_of(config), Weights::none()), processes);
}

TEST(Memory, PeakIsTheMostThatIsThereAtOnce) {
  constexpr int64_t kMega = 1 << 20;
  const auto block = [] { return at::empty({kMega}, at::kByte); };
  EXPECT_EQ(peak_bytes([&] {
              block();
              block();
            }),
            kMega);
  EXPECT_EQ(peak_bytes([&] {
              const at::Tensor a = block(), b = block();
              block();
            }),
            3 * kMega);
  EXPECT_EQ(peak_bytes([] {}), 0);
}

TEST(Memory, OrdinarySettingsFit) {
  check(points());
  Config paper;  // the defaults
  check(paper);
  check_step_memory(points(), spec_of(points()), 1000);
}

TEST(Memory, NumbersThatCannotFitAreNamed) {
  Config config = points();
  config.mining.pool = 1000000000000;
  expect_error([&] { check(config); }, {"mining.pool", "1000000000000 crops", "GiB", "lower it"});
  config.mining.miner = "random";
  expect_error([&] { check(config); }, {"mining.pool", "1000000000000 crops"});
  config = points();
  config.mining.select = 1000000000000;
  expect_error([&] { check(config); }, {"mining.select", "1000000000000 outliers"});
  config = points();
  config.network.hidden = std::vector<int64_t>(100, 65536);
  expect_error([&] { check(config); }, {"network.hidden", "mlp", "smaller network"});
  config = points();
  config.network.name = "wideresnet";
  config.network.depth = 1000;
  config.network.width = 64;
  expect_error([&] { check(config); }, {"network.name", "of wideresnet", "smaller network"});
}

// Sums of features take queue.epochs·m² numbers, whose m² may be what is too much.
TEST(Memory, TheKeyToBlameIsNamed) {
  Config config = points();
  config.network.hidden = {64, 1 << 20};  // beyond what a config may say, so that no machine has room
  expect_error([&] { check(config); }, {"network.hidden", "1048576 features", "smaller network"});
  config.queue.epochs = 1;
  expect_error([&] { check(config); }, {"network.hidden", "1048576 features"});
  config = points();
  config.queue.epochs = 1000000000000;
  expect_error([&] { check(config); }, {"queue.epochs", "1000000000000 epochs", "lower it"});
}

TEST(Memory, StepsThatCannotFitAreNamed) {
  Config config = points();
  config.train.batch = 1000000;
  config.train.outlier_batch = 1;
  check_step_memory(config, spec_of(config), 1000);  // there are no more to put into a step
  config.data.size = 1024;
  config.network.name = "wideresnet";
  config.network.depth = 40;
  expect_error([&] { check_step_memory(config, spec_of(config), 1000000); },
               {"train.batch", "1000001 images of 1024", "lower train.batch"});
  config.train.batch = 1;
  config.train.outlier_batch = 1000000;
  expect_error([&] { check_step_memory(config, spec_of(config), 1000000); },
               {"train.outlier_batch", "1000001 images"});
}

// Processes that are started together share the memory of their computer: 60 % of it suffices for one, not
// for two.
TEST(MemoryOfTeams, IsThatOfAllProcessesHere) {
  constexpr double kCrops = 4 * sizeof(Crop) + 2 * sizeof(double);  // per outlier
  Config config = points();
  config.mining.select = static_cast<int64_t>(0.6 * static_cast<double>(available_memory()) / kCrops);
  expect_error(
      [&] {
        check(config, {2, 2});
      },
      {"mining.select", "in each of 2 processes", "are free", "lower it"});
  check(config, {2, 1});
}

// A process scores its part of a pool.
TEST(MemoryOfTeams, PoolsAreShared) {
  Config config = points();
  config.mining.pool = int64_t{1} << 40;
  const auto expect = [&](const Processes& processes, const std::string& amount) {
    expect_error([&] { check(config, processes); }, {"mining.pool", "need about " + amount});
  };
  expect({1, 1}, "90112.0 GiB of memory, ");  // 16 bytes for a crop; 72 for its copy and scores
  expect({3, 3}, "40960.0 GiB of memory in each of 3 processes");
  config.mining.miner = "dos";  // each process scores all of it
  expect({3, 3}, "106496.0 GiB of memory in each of 3 processes");
}

// While a pool is drawn from a larger source, each of its images takes 56 bytes in every process.
TEST(MemoryOfTeams, PoolsAreDrawnByEachProcess) {
  const at::Tensor pixels = at::zeros({1, 1, 1, 1}, at::kByte).expand({int64_t{1} << 41, 1, 1, 1});
  const Mixture outliers(ImageSet{"huge", pixels, {}, {}});
  Config config = points();
  config.mining.pool = int64_t{1} << 40;
  expect_error(
      [&] {
        check_drawing_memory(config, outliers, {8, 8});
      },
      {"mining.pool", "need about 57344.0 GiB of memory in each of 8 processes", "lower it"});
  config.mining.pool = int64_t{1} << 41;  // all of it
  expect_error([&] { check_drawing_memory(config, outliers, {8, 8}); }, {"need about 51200.0 GiB"});
  config.mining.pool = 1000;
  check_drawing_memory(config, outliers, {8, 8});
}

// A process has its rows of a step.
TEST(MemoryOfTeams, StepsAreShared) {
  Config config = points();
  config.train.batch = config.train.outlier_batch = 1000000;
  config.data.size = 1024;
  config.network.name = "wideresnet";
  config.network.depth = 10;
  const auto need = [&](const Processes& processes) {
    try {
      check_step_memory(config, spec_of(config), 1000000, processes);
    } catch (const Error& error) {
      const std::string message = error.what();
      return std::stod(message.substr(message.find("about ") + 6));
    }
    return 0.0;
  };
  const double alone = need({1, 1});
  EXPECT_GT(alone, 0);
  EXPECT_NEAR(need({4, 2}), alone / 4, alone / 1000);
}

}  // namespace
}  // namespace poem
