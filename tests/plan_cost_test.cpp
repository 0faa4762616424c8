#include "plan/cost.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/file.h"
#include "expect_error.h"
#include "poem/network.h"
#include "readers/packed.h"
#include "team_threads.h"
#include "temporary_folder.h"
#include "train/trainer.h"

namespace poem {
namespace {

std::shared_ptr<Network> small_network() {
  NetworkSpec spec;
  spec.name = "wideresnet";
  spec.depth = 10;
  return make_network(spec, 1);
}

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
  work.weights = work.trained = 50;
  work.features = 3;
  work.outputs = 2;
  work.multiply_adds = 1e6;
  work.id_bytes = 7;
  work.sources = {{1, 10, 0}};
  work.scored = work.posterior = true;
  work.selections = 2;  // by two draws
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

// A sum on four devices sends each byte 2 · 3/4 times, a gather 3/4 times.
TEST(EpochCosts, OfManyDevicesShareTheWorkAndPayForMessages) {
  const auto phases = epoch_costs(small_work(), round_machine(), 4);
  EXPECT_DOUBLE_EQ(phases[0].seconds(), 1000 / 400.0);
  // Per selection: 3 · 2,048 counts of scores, and a list of 4 ties with the sizes of 4 lists. Then the 40
  // numbers with their sizes, and 21 figures. All of them have 8 bytes.
  const double chosen = 1.5 * 8 * (2 * (3 * 2048 + 4 + 4) + 40 + 4 + 21);
  EXPECT_DOUBLE_EQ(phases[1].message_bytes, chosen);
  // A step of 10 images takes 0.25 s on four devices, but no step takes less than 0.5 s. It sums 200 bytes of
  // gradients and a number, and gathers two outputs per image.
  EXPECT_DOUBLE_EQ(phases[2].compute, 10 * 0.5);
  EXPECT_DOUBLE_EQ(phases[2].messages, 10 * (1.5 * 200 + 1.5 * 8 + 0.75 * 80) / 1000.0);
  EXPECT_DOUBLE_EQ(phases[3].message_bytes, 1.5 * 8 * (9 + 3 + 1));
  EXPECT_DOUBLE_EQ(phases.back().seconds(), 2.5 + chosen / 1000 + 5 + 3.72 + 0.3 + 0.156);
}

// On wires without end: 4 hops per sum on four devices, 2 per gather.
TEST(EpochCosts, CountTheLatencyOfEveryMessage) {
  Machine machine = round_machine();
  machine.link = 1e300;
  machine.link_latency = 0.01;
  const auto phases = epoch_costs(small_work(), machine, 4);
  EXPECT_DOUBLE_EQ(phases[1].messages, (2 * (3 + 2) + 2 + 21) * 4 * 0.01);
  EXPECT_DOUBLE_EQ(phases[2].messages, 10 * (4 + 4 + 2) * 0.01);
  EXPECT_DOUBLE_EQ(phases[3].messages, 3 * 4 * 0.01);
  Workload large = small_work();
  large.trained = 5 << 19;  // 2.5 buckets of gradients
  EXPECT_NEAR(epoch_costs(large, machine, 4)[2].messages, 10 * (3 * 4 + 4 + 2) * 0.01, 1e-9);
}

// dos and diverse: every device scores all of the pool, every host reads it, and rank 0 tells its choice.
TEST(EpochCosts, OfAMinerThatComparesOutliersAreNotDivided) {
  Workload work = small_work();
  work.shared = false;
  work.selections = 0;
  const auto phases = epoch_costs(work, round_machine(), 8);
  EXPECT_DOUBLE_EQ(phases[0].compute, 1000 / 100.0);
  EXPECT_DOUBLE_EQ(phases[0].disk_bytes, 1000 * 10);
  EXPECT_DOUBLE_EQ(phases[1].message_bytes, 2 * 7 / 8.0 * 8 * (40 + 8));
}

// Two layers of 5 channels in all: two sums per channel, forward and backward, and a count forward, in 4
// messages per step.
TEST(EpochCosts, CountTheStatisticsOfBatchNorm) {
  Workload work = small_work();
  Machine machine = round_machine();
  machine.link_latency = 0.001;
  const double before = epoch_costs(work, machine, 4)[2].messages;
  work.norms = 2;
  work.norm_channels = 5;
  work.global_norms = true;
  const double ring = 2 * 3 / 4.0, steps = 10, hops = 2 * 2;
  EXPECT_DOUBLE_EQ(epoch_costs(work, machine, 4)[2].messages - before,
                   steps * (ring * 8 * (4 * 5 + 2) / 1000 + 4 * hops * 0.001));
}

TEST(Workload, HasTheStatisticsOfGlobalBatchNorm) {
  const std::shared_ptr<Network> network = small_network();
  Config config;
  config.mining.miner = "none";
  // norm1 and norm2 of three blocks (16 + 16, 16 + 32, 32 + 64), and the last one
  EXPECT_EQ(workload_of(config, *network, 100).norms, 7);
  EXPECT_EQ(workload_of(config, *network, 100).norm_channels, 16 + 16 + 16 + 32 + 32 + 64 + 64);
  EXPECT_TRUE(workload_of(config, *network, 100).global_norms);
  config.train.batch_norm = BatchStatistics::kLocal;
  EXPECT_FALSE(workload_of(config, *network, 100).global_norms);
}

// Those of each rank are averaged when the epoch ends: a mean and a variance per channel.
TEST(EpochCosts, CountTheMeanOfLocalStatistics) {
  Workload work = small_work();
  Machine machine = round_machine();
  machine.link_latency = 0.001;
  const double before = epoch_costs(work, machine, 4)[2].messages;
  work.norms = 2;
  work.norm_channels = 5;
  EXPECT_NEAR(epoch_costs(work, machine, 4)[2].messages - before, 1.5 * 4 * 2 * 5 / 1000 + 2 * 2 * 4 * 0.001,
              1e-12);
}

// A pass forward, and a third of the smallest step. BatchNorm runs as in inference.
TEST(EpochCosts, OfAFrozenBackboneAreThoseOfAPassForward) {
  Workload work = small_work();
  work.frozen = true;
  work.trained = 5;
  EXPECT_DOUBLE_EQ(epoch_costs(work, round_machine(), 1)[2].compute, 10 * 0.5 / 3);
  work.batch = 80;
  work.outlier_batch = 920;
  EXPECT_DOUBLE_EQ(epoch_costs(work, round_machine(), 1)[2].compute, 1000 / 100.0);
  const double before = epoch_costs(work, round_machine(), 4)[2].message_bytes;
  EXPECT_DOUBLE_EQ(before, 1.5 * 4 * 5 + 1.5 * 8 + 0.75 * 4 * 2 * 1000);
  work.norms = 2;
  work.norm_channels = 5;
  work.global_norms = true;
  EXPECT_DOUBLE_EQ(epoch_costs(work, round_machine(), 4)[2].message_bytes, before);
}

// Of a frozen network only the last layer has gradients; an objective may add outputs.
TEST(Workload, CountsWhatIsTrained) {
  Config config;
  config.mining.miner = "none";
  config.network.name = "mlp";
  config.network.hidden = {5};
  config.network.mean = {0};
  config.network.std = {1};
  config.data.size = 2;
  const auto work = [&] { return workload_of(config, *planned_network(config), 100); };
  EXPECT_EQ(work().weights, 4 * 5 + 5 + 5 * 10 + 10);
  EXPECT_EQ(work().trained, work().weights);
  EXPECT_FALSE(work().frozen);
  config.train.freeze = Freeze::kBackbone;
  EXPECT_EQ(work().trained, 5 * 10 + 10);
  EXPECT_EQ(work().weights, 4 * 5 + 5 + 5 * 10 + 10);
  EXPECT_TRUE(work().frozen);
  config.objective.name = "outlier_class";
  EXPECT_EQ(work().trained, 5 * 11 + 11);
  EXPECT_EQ(work().outputs, 11);
}

TEST(EpochCosts, NameTheDiskThatIsTooSlow) {
  Machine machine = round_machine();
  machine.disk = 100;
  const auto phases = epoch_costs(small_work(), machine, 1);
  EXPECT_DOUBLE_EQ(phases[0].seconds(), 10000 / 100.0);
  EXPECT_EQ(phases[0].limit(), "disk");
  EXPECT_DOUBLE_EQ(epoch_costs(small_work(), machine, 8)[0].disk, 5000 / 100.0);  // two hosts read
}

TEST(EpochCosts, WithoutAPosteriorThereIsNoQueue) {
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
  // As in one stage, and the sums of a regression with a constant.
  const double one_stage = epoch_costs(small_work(), round_machine(), 4)[1].message_bytes;
  EXPECT_DOUBLE_EQ(four[1].message_bytes - one_stage, 1.5 * 8 * (16 + 4 + 1));
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

TEST(Workload, KnowsWhatMinersDo) {
  const std::shared_ptr<Network> network = small_network();
  Config config;
  config.data.outliers = {"photos"};
  struct Case {
    const char* miner;
    bool scored, shared, posterior;
    double selections, with_all;  // with_all: some are skipped, others random
  };
  for (const Case& expected :
       {Case{"thompson", true, true, true, 2, 5}, Case{"mean", true, true, true, 2, 5},
        Case{"greedy", true, true, false, 1, 3}, Case{"logit", true, true, false, 1, 3},
        Case{"dos", true, false, false, 0, 0}, Case{"diverse", true, false, true, 0, 0},
        Case{"random", false, false, false, 0, 0}}) {
    SCOPED_TRACE(expected.miner);
    config.mining.miner = expected.miner;
    config.mining.skip = config.mining.random = 0;
    const Workload work = workload_of(config, *network, 1000);
    EXPECT_EQ(work.scored, expected.scored);
    EXPECT_EQ(work.shared, expected.shared);
    EXPECT_EQ(work.posterior, expected.posterior);
    EXPECT_EQ(work.selections, expected.selections);
    config.mining.skip = config.mining.random = 0.1;
    EXPECT_EQ(workload_of(config, *network, 1000).selections, expected.with_all);
  }
}

// supcon trains on two crops of every ID image.
TEST(EpochCosts, CountEveryViewOfAnImage) {
  NetworkSpec spec;
  spec.name = "wideresnet";
  spec.depth = 10;
  Config config;
  config.objective.name = "supcon";
  config.mining.miner = "none";
  EXPECT_EQ(workload_of(config, *make_network(spec, 1), 100).views, 2);
  Workload work = small_work();
  work.views = 2;
  EXPECT_DOUBLE_EQ(epoch_costs(work, round_machine(), 1)[2].compute, 10 * (2 * 8 + 2) / 10.0);
}

// 3 epochs of ID images alone (0.8 s per step), 7 that mine (21.2 s), 5 with the last mined set (10 s).
TEST(TrainingSeconds, CountEveryKindOfEpoch) {
  Workload work = small_work();
  work.pretrain = 3;
  work.epochs = 12;
  work.mined_epochs = 7;
  EXPECT_DOUBLE_EQ(training_seconds(work, round_machine(), 1), 3 * 8 + 7 * 21.2 + 5 * 10);

  const std::shared_ptr<Network> network = small_network();
  Config config;
  config.data.outliers = {"photos"};
  config.train.epochs = 12;
  config.train.pretrain = 3;
  EXPECT_EQ(workload_of(config, *network, 100).mined_epochs, 12);
  config.mining.until = 7;
  EXPECT_EQ(workload_of(config, *network, 100).mined_epochs, 7);
  EXPECT_EQ(workload_of(config, *network, 100).pretrain, 3);
}

// Weights, gradients and velocities of 50 parameters; 80 ID images of 7 bytes and two crops; all 1,000 crops
// of the pool; of the part crops, 4 scores and 10 products; 40 mined outliers twice; four 3×3 matrices.
TEST(DeviceMemory, HasAllCropsOnEveryDevice) {
  const double other = 12 * 50 + 80 * (7 + 32) + 2 * 16 * 40 + 4 * 8 * 9;
  EXPECT_DOUBLE_EQ(device_memory(small_work(), 1), other + 16 * 1000 + 1000 * (16 + 16 + 40));
  EXPECT_DOUBLE_EQ(device_memory(small_work(), 4), other + 16 * 1000 + 250 * (16 + 16 + 40));
  Workload work = small_work();
  work.shared = false;
  // The pool's order, its crops in that order, and twice cluster, group, length and three columns.
  EXPECT_DOUBLE_EQ(device_memory(work, 4), other + 16 * 1000 + 1000 * (16 + 8 + 16 + 2 * (8 + 8 + 4 + 12)));
  work = small_work();
  work.averaged = true;  // the average, and the network that has it
  EXPECT_DOUBLE_EQ(device_memory(work, 4) - device_memory(small_work(), 4), 8 * 50);
  work = small_work();
  work.trained = 20;
  EXPECT_DOUBLE_EQ(device_memory(small_work(), 4) - device_memory(work, 4), 8 * 30);
  work = small_work();
  work.sources[0].images = 5000;  // a table of hashes and a list, 56 bytes per image, before there are crops
  EXPECT_DOUBLE_EQ(device_memory(work, 4), other + 56 * 1000);
}

// Page by page: it is read unless none of its images was chosen.
TEST(BytesRead, AreThoseOfWholePages) {
  for (const int64_t bytes : {3072, 12288, 784, 4096, 100}) {
    const int64_t images = 4096;  // ends with a page, whatever the size
    for (const double share : {0.01, 0.3, 0.999}) {
      double expected = 0;
      for (int64_t page = 0; page < bytes * images; page += 4096) {
        const int64_t first = page / bytes, last = (page + 4095) / bytes;
        expected += 4096 * (1 - std::pow(1 - share, last - first + 1));
      }
      const OutlierSource source{1, static_cast<double>(bytes), static_cast<double>(images)};
      EXPECT_NEAR(bytes_read(source, share * images), expected, 0.02 * expected) << bytes << " " << share;
    }
  }
  EXPECT_NEAR(bytes_read({1, 3072, 1e9}, 1), 1.5 * 4096, 1);
  EXPECT_DOUBLE_EQ(bytes_read({1, 3072, 1000}, 4000), 1000 * 3072) << "four crops of every image";
  EXPECT_DOUBLE_EQ(bytes_read({1, 3072, 0}, 4000), 4000 * 3072) << "of a source that is not known";
}

TEST(OutlierSources, HaveTheSizeInTheHeaderOfAPackedFile) {
  const TemporaryFolder folder;
  PackedWriter writer(folder / "large.poem");
  writer.add(at::zeros({6, 3, 64, 64}, at::kByte));
  writer.finish({});
  Config config;
  config.data.folder = folder.path();
  config.data.outliers = {"large.poem#share=0.25", "photos"};
  const std::vector<OutlierSource> sources = outlier_sources(config, 3072);
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_EQ(sources[0].image_bytes, 3 * 64 * 64);
  EXPECT_EQ(sources[0].images, 6);
  EXPECT_EQ(sources[0].share, 0.25);
  EXPECT_EQ(sources[1].image_bytes, 3072) << "not packed";
  EXPECT_EQ(sources[1].images, 0);
  EXPECT_EQ(sources[1].share, 0.75);
  config.data.outliers = {"large.poem#count=2"};
  EXPECT_EQ(outlier_sources(config, 3072)[0].images, 0) << "a part of it";
  config.data.outliers = {"absent.poem"};
  EXPECT_EQ(outlier_sources(config, 3072)[0].image_bytes, 3072);
}

// Against what ranks count.
TEST(EpochCosts, HaveTheBytesThatRanksSend) {
  const TemporaryFolder folder;
  write_file(folder / "c.yaml", R"(
data: {train: "world:train:32", outliers: "world:outliers:90", size: 12, validation: 0}
network: {name: wideresnet, depth: 10}
mining: {pool: 80}
train: {epochs: 3, batch: 16, outlier_batch: 4, learning_rate: 0.005}
)");
  using Set = std::vector<std::string>;
  for (const Set& set :
       {Set{}, Set{"mining.skip=0.1", "mining.random=0.3"}, Set{"mining.miner=greedy"},
        Set{"mining.miner=dos"}, Set{"mining.miner=random", "train.batch_norm=local"},
        Set{"mining.candidates=0.5"}, Set{"train.freeze=backbone", "network.init=weights of another run"},
        Set{"train.freeze=backbone", "network.init=weights", "train.batch_norm=local"},
        Set{"objective.name=ccu", "objective.components=3", "score=msp"}}) {
    SCOPED_TRACE(set.empty() ? "thompson" : set[0]);
    const Config config = read_config(folder / "c.yaml", set);
    const TrainingData data = load_training_data(config);
    const auto compare = [&](const Team& team) {
      Trainer trainer(config, data, c10::Device(c10::kCPU), team);
      trainer.run_epoch();
      const EpochReport report = trainer.run_epoch();
      if (!team.first()) return;
      const Workload work = workload_of(config, *trainer.network(), 32);
      for (const PhaseCost& phase : epoch_costs(work, round_machine(), team.size())) {
        const auto expect = [&](const char* name, int64_t sent) {
          if (phase.name != name) return;
          EXPECT_NEAR(phase.message_bytes, static_cast<double>(sent), 100 + 0.01 * static_cast<double>(sent))
              << name;
        };
        expect("choose outliers", report.team->mine_bytes);
        expect("train", report.team->train_bytes);
        expect("queue", report.team->queue_bytes);
      }
    };
    for (const int ranks : {2, 3}) as_team(ranks, compare);
  }
}

TEST(EpochCosts, NeedLinksForMoreThanOneDevice) {
  Machine machine = round_machine();
  machine.link = 0;
  EXPECT_NO_THROW(epoch_costs(small_work(), machine, 1));
  expect_error([&] { epoch_costs(small_work(), machine, 2); },
               {"round", "inside a host, for 2 devices",
                "run poem bench on 2 processes of it, or give link_bytes_per_s"});
  machine.host_link = 0;
  expect_error([&] { epoch_costs(small_work(), machine, 8); },
               {"round", "has 4 devices per host", "between hosts, for 8 devices",
                "if one machine has 8, run poem bench on 8 processes of it; if not, give "
                "host_link_bytes_per_s"});
  machine.link = 1000;
  expect_error([&] { epoch_costs(small_work(), machine, 8); },
               {"processes of it or raise devices_per_host in the file; if not"});
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
