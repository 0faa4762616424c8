#include "plan/cost.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/file.h"
#include "expect_error.h"
#include "poem/network.h"
#include "temporary_folder.h"

namespace poem {
namespace {

// Round numbers: 100 images a second forward, 10 in training, 1,000 bytes a second over any wire.
Machine round_machine() {
  Machine machine;
  machine.name = "round";
  machine.networks = {{"some network", 1e6, 100, 10, 0.5}};
  machine.devices_per_host = 4;
  machine.disk = 1e4;
  machine.link = machine.host_link = 1000;
  return machine;
}

Workload small_work() {
  Workload work;
  work.id_images = 80;
  work.pool = 1000;
  work.select = 40;
  work.batch = 8;
  work.outlier_batch = 2;
  work.queued = 120;
  work.parameters = 50;
  work.features = 3;
  work.multiply_adds = 1e6;
  work.image_bytes = 10;
  work.scored = work.posterior = true;
  return work;
}

TEST(EpochCosts, OfOneDeviceAreItsImagesOverItsSpeed) {
  const auto phases = epoch_costs(small_work(), round_machine(), 1);
  ASSERT_EQ(phases.size(), 5u);
  EXPECT_DOUBLE_EQ(phases[0].seconds(), 1000 / 100.0);  // score
  EXPECT_EQ(phases[0].limit(), "compute");
  EXPECT_DOUBLE_EQ(phases[0].disk_bytes, 1000 * 10);
  EXPECT_DOUBLE_EQ(phases[1].seconds(), 0);            // choose
  EXPECT_DOUBLE_EQ(phases[2].seconds(), 10 * 1.0);     // train: 10 steps of 10 images
  EXPECT_DOUBLE_EQ(phases[3].seconds(), 120 / 100.0);  // queue
  EXPECT_DOUBLE_EQ(phases[4].seconds(), 10 + 10 + 1.2);
  EXPECT_DOUBLE_EQ(phases[4].message_bytes, 0);
}

TEST(EpochCosts, OfManyDevicesShareTheWorkAndPayForMessages) {
  const auto phases = epoch_costs(small_work(), round_machine(), 4);
  EXPECT_DOUBLE_EQ(phases[0].seconds(), 1000 / 400.0);
  EXPECT_DOUBLE_EQ(phases[1].seconds(), (40 * 8 + 50e3) / 1000);  // 40 numbers, and counts of scores
  // A step of 10 images takes 0.25 s on four devices, but no step takes less than 0.5 s. A ring sends each of
  // the 200 bytes of gradients 2 · 3/4 times.
  EXPECT_DOUBLE_EQ(phases[2].compute, 10 * 0.5);
  EXPECT_DOUBLE_EQ(phases[2].messages, 10 * 300 / 1000.0);
  EXPECT_DOUBLE_EQ(phases[3].message_bytes, 1.5 * 8 * 3 * 4);  // m² + m sums
  EXPECT_DOUBLE_EQ(phases.back().seconds(), 2.5 + 50.32 + 5 + 3 + 0.3 + 0.144);
}

// Two layers of 5 channels in all: two sums per channel, forward and backward, in 4 messages per step.
TEST(EpochCosts, CountTheStatisticsOfBatchNorm) {
  Workload work = small_work();
  Machine machine = round_machine();
  machine.link_latency = 0.001;
  const double before = epoch_costs(work, machine, 4)[2].messages;
  work.norms = 2;
  work.norm_channels = 5;
  const double ring = 2 * 3 / 4.0, steps = 10, hops = 2 * 2;
  EXPECT_DOUBLE_EQ(epoch_costs(work, machine, 4)[2].messages - before,
                   steps * (ring * 4 * 8 * 5 / 1000 + 4 * hops * 0.001));
}

TEST(Workload, HasTheStatisticsOfGlobalBatchNorm) {
  NetworkSpec spec;
  spec.name = "wideresnet";
  spec.depth = 10;
  const std::shared_ptr<Network> network = make_network(spec, 1);
  Config config;
  // norm1 and norm2 of three blocks (16 + 16, 16 + 32, 32 + 64), and the last one
  EXPECT_EQ(workload_of(config, *network, 100).norms, 7);
  EXPECT_EQ(workload_of(config, *network, 100).norm_channels, 16 + 16 + 16 + 32 + 32 + 64 + 64);
  config.train.batch_norm = BatchStatistics::kLocal;
  EXPECT_EQ(workload_of(config, *network, 100).norms, 0);
}

TEST(EpochCosts, NameTheDiskThatIsTooSlow) {
  Machine machine = round_machine();
  machine.disk = 100;
  const auto phases = epoch_costs(small_work(), machine, 1);
  EXPECT_DOUBLE_EQ(phases[0].seconds(), 10000 / 100.0);
  EXPECT_EQ(phases[0].limit(), "disk");
  EXPECT_DOUBLE_EQ(epoch_costs(small_work(), machine, 8)[0].disk, 5000 / 100.0);  // two hosts read
}

TEST(EpochCosts, WithoutAPosteriorThereIsNoScoreAndNoQueue) {
  Workload work = small_work();
  work.scored = work.posterior = false;
  const auto phases = epoch_costs(work, round_machine(), 1);
  ASSERT_EQ(phases.size(), 4u);
  EXPECT_DOUBLE_EQ(phases[0].compute, 0);
  work.scored = true;  // greedy: the score of the network itself
  EXPECT_DOUBLE_EQ(epoch_costs(work, round_machine(), 1)[0].compute, 1000 / 100.0);
  work.scored = false;
  work.pool = 0;
  EXPECT_EQ(epoch_costs(work, round_machine(), 1).front().name, "train");
}

// 1,000 images at a quarter of the work, 300 candidates, and 250 of the pool for fit and measurement.
TEST(EpochCosts, OfTwoStagesAreThoseOfTheLookAndOfTheCandidates) {
  Workload work = small_work();
  work.candidates = 0.3;
  work.first_look = 0.25;
  const auto phases = epoch_costs(work, round_machine(), 1);
  EXPECT_DOUBLE_EQ(phases[0].compute, (250 + 300 + 250) / 100.0);
  EXPECT_DOUBLE_EQ(phases[0].disk_bytes, (1000 + 300 + 250) * 10);
  const auto four = epoch_costs(work, round_machine(), 4);
  // Counts of scores once more, and the sums of a regression with a constant.
  EXPECT_DOUBLE_EQ(four[1].message_bytes, 40 * 8 + 2 * 50e3 + 1.5 * 8 * 4 * 5);
  work.pool = 1e6;  // 2 % of a large pool are enough
  EXPECT_DOUBLE_EQ(epoch_costs(work, round_machine(), 1)[0].compute, 1e6 * 0.57 / 100);
}

// Convolutions of half the side take a quarter; the last layer does not matter.
TEST(Workload, OfTwoStagesKnowsTheWorkOfALook) {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", R"(
data: {train: "world:train:39", outliers: "world:outliers:90", size: 32}
network: {name: wideresnet, depth: 10}
mining: {candidates: 0.4}
)");
  const Config config = read_config(folder / "c.yaml", {});
  const Workload work = workload_of(config, *make_network(config.network, 0), 1000);
  EXPECT_NEAR(work.first_look, 0.25, 1e-3);
  EXPECT_DOUBLE_EQ(work.candidates, 0.4);
  EXPECT_TRUE(work.scored);
}

TEST(EpochCosts, NeedLinksForMoreThanOneDevice) {
  Machine machine = round_machine();
  machine.link = 0;
  EXPECT_NO_THROW(epoch_costs(small_work(), machine, 1));
  expect_error([&] { epoch_costs(small_work(), machine, 2); }, {"round", "inside hosts"});
  machine.host_link = 0;
  expect_error([&] { epoch_costs(small_work(), machine, 8); }, {"round", "between hosts"});
}

TEST(Speed, OfAnotherNetworkIsScaledByItsMultiplications) {
  const Machine machine = round_machine();
  EXPECT_FALSE(speed_for(machine, 1e6).scaled);
  const SpeedEstimate twice = speed_for(machine, 2e6);
  EXPECT_TRUE(twice.scaled);
  EXPECT_DOUBLE_EQ(twice.speed.forward, 50);
  EXPECT_DOUBLE_EQ(twice.speed.train, 5);
}

// By hand for WideResNet-10-1 on 8×8: output pixels · output channels · input channels · taps.
TEST(MultiplyAdds, AreThoseOfTheLayers) {
  NetworkSpec spec;
  spec.name = "wideresnet";
  spec.depth = 10;
  spec.classes = 5;
  const double stem = 64 * 16 * 3 * 9, first = 64 * 16 * 16 * 9 * 2.0,
               second = 16 * 32 * (16 * 9 + 32 * 9 + 16), third = 4 * 64 * (32 * 9 + 64 * 9 + 32),
               last = 64 * 5;
  EXPECT_DOUBLE_EQ(multiply_adds(*make_network(spec, 1), 8), stem + first + second + third + last);
}

TEST(Machine, IsTheSameAfterItsFile) {
  const TemporaryFolder folder;
  Machine machine = round_machine();
  machine.note = "by hand";
  machine.host_latency = 2e-5;
  machine.epochs = {{1000, 3.5, 2}};
  folder.put("machine.json", to_json_text(machine));
  const Machine read = read_machine(folder / "machine.json");
  EXPECT_EQ(to_json_text(read), to_json_text(machine));
  EXPECT_EQ(read.host_latency, 2e-5);
  EXPECT_EQ(read_machine("h200").name, "h200");
}

TEST(Machine, RefusesWhatIsNone) {
  const TemporaryFolder folder;
  const auto expect = [&](const std::string& text, const std::vector<std::string>& words) {
    folder.put("machine.json", text);
    expect_error([&] { read_machine(folder / "machine.json"); }, words);
  };
  expect("speed: 3", {"machine.json", "not JSON", "h200"});
  expect("[]", {"machine.json", "does not describe a machine", "poem bench"});
  std::string text = to_json_text(round_machine());
  text.replace(text.find("10000.0"), 7, "-1");
  expect(text, {"\"disk_bytes_per_s\" is -1", "at least 1"});
  text.replace(text.find("\"disk_bytes"), 11, "\"disk_byt");
  expect(text, {"has no \"disk_bytes_per_s\""});
  expect_error([&] { read_machine(folder / "absent.json"); }, {"absent.json"});
}

}  // namespace
}  // namespace poem
