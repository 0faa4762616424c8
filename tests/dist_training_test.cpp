// Several ranks train the network that one process trains, up to rounding.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <mutex>
#include <regex>
#include <thread>

#include "core/file.h"
#include "core/interrupts.h"
#include "expect_error.h"
#include "images/pool.h"
#include "mining/mine.h"
#include "poem/version.h"
#include "release_interrupts.h"
#include "team_threads.h"
#include "temporary_folder.h"
#include "train/agreement.h"
#include "train/trainer.h"

namespace poem {
namespace {

const c10::Device kCpu(c10::kCPU);

Config config_of(const std::string& yaml, const std::vector<std::string>& assignments) {
  TemporaryFolder folder;
  write_file(folder / "c.yaml", yaml);
  return read_config(folder / "c.yaml", assignments);
}

// Points instead of images, for what needs no BatchNorm. 270 in batches of 64: the last has 14.
Config points(const std::vector<std::string>& assignments = {}) {
  return config_of(R"(
data: {train: "world2d:train:300", outliers: "world2d:outliers:900", size: 1, validation: 0.1}
network: {name: mlp, mean: [0, 0], std: [2, 2]}
mining: {pool: 700}
train: {epochs: 2, batch: 64, outlier_batch: 64, learning_rate: 0.01}
queue: {epochs: 2}
)",
                   assignments);
}

// 35 images in batches of 16: the last has 3, with its outliers 4, one for each of four ranks.
Config images(const std::vector<std::string>& assignments = {}) {
  return config_of(R"(
data: {train: "world:train:39", outliers: "world:outliers:90", size: 12, validation: 0.1}
network: {name: wideresnet, depth: 10}
mining: {pool: 75}
train: {epochs: 1, batch: 16, outlier_batch: 2, learning_rate: 0.005}
)",
                   assignments);
}

TensorFile copy_of(const Trainer& trainer) {
  const TemporaryFolder folder;
  TensorFile live;
  trainer.store(live);
  write_safetensors(folder / "state", live);
  return read_safetensors(folder / "state");
}

struct Trained {
  std::vector<TensorFile> epochs;  // the state after each
  std::vector<EpochReport> reports;
  at::Tensor draws;  // of the posterior
};

Trained train(const Config& config, const Team& team, const TensorFile* from = nullptr) {
  const TrainingData data = load_training_data(config);
  Trainer trainer(config, data, kCpu, team);
  if (from != nullptr) trainer.load(*from);
  Trained trained;
  while (!trainer.done()) {
    trained.reports.push_back(trainer.run_epoch([] { return false; }));
    trained.epochs.push_back(copy_of(trainer));
  }
  Stream stream(1, "test");
  trained.draws = trainer.posterior().draws(stream, 2);
  return trained;
}

std::vector<Trained> train_as_team(const Config& config, int size, const TensorFile* from = nullptr) {
  std::vector<Trained> all(size);
  as_team(size, [&](const Team& team) { all[team.rank()] = train(config, team, from); });
  return all;
}

double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  return ((x - y).norm() / (x.norm() + 1e-3)).item<double>();
}

void expect_close(const TensorFile& expected, const TensorFile& got, double most, const std::string& what) {
  ASSERT_EQ(expected.tensors.size(), got.tensors.size());
  for (const auto& [name, tensor] : expected.tensors) {
    if (name == "seconds" || name == "mined") continue;
    EXPECT_LT(relative_difference(tensor, got.tensor(name)), most) << what << " " << name;
  }
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
}

const std::vector<std::vector<std::string>> kMethods = {
    {"mining.miner=thompson", "mining.skip=0.05", "mining.random=0.2"},
    {"mining.miner=mean", "queue.features=fresh"},
    {"objective.name=outlier_class", "mining.miner=greedy", "mining.skip=0.1", "score=reject"},
    {"objective.name=outlier_class", "mining.miner=logit", "score=reject"},
    {"objective.name=oe", "mining.miner=random", "score=msp", "train.average=0.9"},
    {"objective.name=sofl", "mining.miner=dos", "score=reject_energy", "train.pretrain=1"},
    {"objective.name=energy", "mining.miner=diverse", "mining.select=100"},
    {"objective.name=ccu", "mining.miner=random", "objective.components=5", "score=msp"},
    {"objective.name=supcon", "mining.miner=none", "score=ssd"},
    {"objective.name=cross_entropy", "mining.miner=none"},
};

class TeamOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, TeamOf, testing::Values(2, 3, 4));

void expect_same_state(const Trained& a, const Trained& b, const std::string& what) {
  for (const auto& [name, tensor] : a.epochs.back().tensors)
    EXPECT_TRUE(name == "seconds" || same_bits(tensor, b.epochs.back().tensor(name))) << what << " " << name;
}

TEST_P(TeamOf, TrainsWhatOneProcessTrains) {
  for (const auto& method : kMethods) {
    const Config config = points(method);
    const std::string what = method[0] + " " + method[1];
    const Trained alone = train(config, Team());
    const std::vector<Trained> team = train_as_team(config, GetParam());
    for (size_t epoch = 0; epoch < alone.epochs.size(); ++epoch) {
      const TensorFile &one = alone.epochs[epoch], &all = team[0].epochs[epoch];
      EXPECT_TRUE(same_bits(one.tensor("mined"), all.tensor("mined"))) << what;
      expect_close(one, all, 1e-4, what);
    }
    const EpochReport &one = alone.reports.back(), &all = team[0].reports.back();
    EXPECT_NEAR(one.loss, all.loss, 1e-4 * std::abs(one.loss)) << what;
    EXPECT_EQ(one.validation_accuracy, all.validation_accuracy) << what;
    ASSERT_TRUE(all.team);
    EXPECT_EQ(all.team->seconds.size(), static_cast<size_t>(GetParam()));
    for (const Trained& rank : team) {
      EXPECT_TRUE(same_bits(rank.draws, team[0].draws)) << what << ": every rank draws the same w";
      expect_same_state(rank, team[0], what);
    }
  }
}

// Points are not augmented, so crops of an image are equal: which of them are mined depends on roundings, but
// not how many of each image.
TEST_P(TeamOf, MinesAsManyCropsOfEachImageAsOneProcess) {
  const Config config = points({"mining.max_per_image=3", "mining.pool=3000"});
  const auto images = [](const TensorFile& state) {
    return std::get<0>(state.tensor("mined").select(1, 0).sort());
  };
  const Trained alone = train(config, Team());
  const std::vector<Trained> team = train_as_team(config, GetParam());
  EXPECT_TRUE(same_bits(images(alone.epochs[0]), images(team[0].epochs[0])));
}

TEST_P(TeamOf, NormalisesTheWholeBatch) {
  for (const char* network : {"wideresnet", "densenet"}) {
    const Config config = images({std::string("network.name=") + network});
    const Trained alone = train(config, Team());
    const std::vector<Trained> team = train_as_team(config, GetParam());
    EXPECT_TRUE(same_bits(alone.epochs[0].tensor("mined"), team[0].epochs[0].tensor("mined"))) << network;
    // A ReLU whose input is near 0 may go the other way, as after any change of a weight by its last digit.
    expect_close(alone.epochs[0], team[0].epochs[0], 5e-2, network);
    for (const Trained& rank : team) expect_same_state(rank, team[0], network);
  }
}

TEST_P(TeamOf, MinesInTwoStagesWhatOneProcessMines) {
  const Config config = images({"mining.candidates=0.3"});
  const Trained alone = train(config, Team());
  const std::vector<Trained> team = train_as_team(config, GetParam());
  EXPECT_TRUE(same_bits(alone.epochs[0].tensor("mined"), team[0].epochs[0].tensor("mined")));
  EXPECT_EQ(alone.reports[0].mining->recall, team[0].reports[0].mining->recall);
  for (const Trained& rank : team) expect_same_state(rank, team[0], "two stages");
}

TEST(TwoStages, GoOnAfterACheckpointToTheSameBits) {
  const std::vector<std::string> longer = {"train.epochs=3", "mining.candidates=0.3"};
  const Trained whole = train(images(longer), Team());
  const Trained resumed = train(images(longer), Team(), &whole.epochs[0]);
  expect_same_state(whole, resumed, "resumed");
  EXPECT_EQ(whole.reports.back().mining->recall, resumed.reports.back().mining->recall);
}

TEST(TwoStages, WithAllAsCandidatesAreOneStage) {
  const Trained one = train(images(), Team()), all = train(images({"mining.candidates=1"}), Team());
  expect_same_state(one, all, "all");
  EXPECT_FALSE(all.reports[0].mining->recall);
}

TEST_P(TeamOf, ResumesWhatAnotherNumberOfRanksBegan) {
  const Config config = points();
  const Trained alone = train(config, Team());
  const std::vector<Trained> two = train_as_team(config, 2);
  const std::vector<Trained> resumed = train_as_team(config, GetParam(), &two[0].epochs[0]);
  expect_close(alone.epochs.back(), resumed[0].epochs.back(), 1e-4, "resumed");
  if (GetParam() == 2) expect_same_state(two[0], resumed[0], "resumed");
}

// BatchNorm of a rank's own images is another training, but one of which all ranks have the same weights.
TEST(Ranks, WithLocalStatisticsAgree) {
  const Config config = images({"train.batch_norm=local"});
  const std::vector<Trained> team = train_as_team(config, 2);
  expect_same_state(team[0], team[1], "local");
  const Trained alone = train(config, Team());
  EXPECT_GT(relative_difference(alone.epochs[0].tensor("network.stem.weight"),
                                team[0].epochs[0].tensor("network.stem.weight")),
            1e-4);
}

// 33 images in batches of 16: the last has 1.
TEST(Ranks, MayHaveNoImageOfABatch) {
  for (const char* network : {"wideresnet", "densenet"}) {
    const Config config = images({std::string("network.name=") + network, "data.train=world:train:37",
                                  "objective.name=cross_entropy", "mining.miner=none", "score=msp"});
    const Trained alone = train(config, Team());
    const std::vector<Trained> team = train_as_team(config, 3);
    expect_close(alone.epochs[0], team[0].epochs[0], 5e-2, network);
    for (const Trained& rank : team) expect_same_state(rank, team[0], network);
  }
}

TEST(Ranks, CompareEveryImageOfASmallSet) {
  for (const bool differs : {false, true}) {
    as_team(2, [&](const Team& team) {
      const Config config = images();
      TrainingData data = load_training_data(config);
      if (differs && team.rank() == 1) data.id.pixels[17].fill_(7);
      const Trainer trainer(config, data, kCpu, team);
      if (differs)
        expect_error([&] { check_agreement(trainer, data); }, {"rank 1", "checksum of ID images"});
      else
        check_agreement(trainer, data);
    });
  }
}

// As a rank whose machine has an older poem.
class OlderChannel : public ChannelAround {
 public:
  using ChannelAround::ChannelAround;
  void write(const std::string& key, const std::string& text) override {
    ChannelAround::write(key,
                         std::regex_replace(text, std::regex("\"poem\":\"[^\"]*\""), "\"poem\":\"0.0.1\""));
  }
};

TEST(Ranks, CompareTheirVersions) {
  const auto compare = [](const Team& team) {
    const Config config = points();
    const TrainingData data = load_training_data(config);
    check_agreement(Trainer(config, data, kCpu, team), data);
  };
  as_team(2, compare);
  const auto older = [&](int rank, std::unique_ptr<Channel> channel) -> std::unique_ptr<Channel> {
    if (rank == 0) return channel;
    return std::make_unique<OlderChannel>(std::move(channel));
  };
  expect_error([&] { as_team(2, compare, older); },
               {"rank 1", "has poem \"0.0.1\"", std::string("rank 0 has \"") + version(), "the same poem"});
}

// Machines that do not share the run's folder may have other states of it.
TEST(Ranks, CompareWhereARunStands) {
  const Config config = points();
  const TrainingData data = load_training_data(config);
  const Trained run = train(config, Team()), other = train(points({"seed=5"}), Team());
  const auto resume = [&](const TensorFile* state) {
    as_team(2, [&](const Team& team) {
      Trainer trainer(config, data, kCpu, team);
      if (const TensorFile* own = team.first() ? &run.epochs[0] : state) trainer.load(*own);
      check_agreement(trainer, data);
    });
  };
  resume(&run.epochs[0]);
  expect_error([&] { resume(nullptr); },
               {"rank 1", "has epochs begun 0, rank 0 has 1", "same", "run folder"});
  expect_error([&] { resume(&run.epochs[1]); }, {"rank 1", "has epochs begun 2, rank 0 has 1"});
  expect_error([&] { resume(&other.epochs[0]); }, {"rank 1", "has checksum of weights"});
}

// It has some work more before it asks whether to stop.
TEST(Ranks, NameTheOneThatIsSlow) {
  const Config config = points();
  const TrainingData data = load_training_data(config);
  as_team(3, [&](const Team& team) {
    Trainer trainer(config, data, kCpu, team);
    const EpochReport report = trainer.run_epoch([&] {
      if (team.rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(300));
      return false;
    });
    const std::string text = to_text(report, trainer.epochs());
    EXPECT_NE(text.find("slow: rank 2 worked 1."), std::string::npos) << text;
  });
}

// The first step needs more images than are made between two looks at Ctrl-C, which comes meanwhile.
class Interrupts : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Interrupts, testing::Values(1, 2));

TEST_P(Interrupts, LetAStepThatMakesItsImagesEnd) {
  const Config config =
      images({"network.name=mlp", "data.train=world:train:18", "mining.miner=random", "mining.pool=2600",
              "mining.select=2500", "train.batch=8", "train.outlier_batch=1250", "score=energy"});
  as_team(GetParam(), [&](const Team& team) {
    TrainingData data = load_training_data(config);
    const auto make = [](const std::vector<int64_t>& images, int64_t*) {
      if (!interrupted()) std::raise(SIGINT);
      return at::zeros({static_cast<int64_t>(images.size()), 3, 12, 12}, at::kByte);
    };
    const auto lazy = std::make_shared<LazyImages>("lazy", std::vector<int64_t>{2600, 3, 12, 12},
                                                   std::vector<std::string>(), make);
    data.outliers = Mixture({{lazy->images(), 1, lazy}});
    Trainer trainer(config, data, kCpu, team);
    team.any(false);  // all are here
    if (team.first()) catch_interrupts();
    team.any(false);
    EXPECT_THROW(trainer.run_epoch(), Interrupted);
    EXPECT_GT(lazy->made(), 512);
    EXPECT_TRUE(trainer.in_epoch()) << "there is something to save";
  });
  release_interrupts();
}

TEST(Ranks, AreNotMoreThanTheImagesOfAStep) {
  expect_error([] { train_as_team(points({"train.batch=1"}), 2); }, {"train.batch", "2 processes"});
}

// Ranks and logits are functions of a crop's seed; there are many ties.
struct Given : Miner {
  bool ranks_alone(const MiningTask&) const override { return true; }
  PoolScores score(const MiningTask& task) const override {
    PoolScores scores;
    scores.spread = 0;
    for (const Crop& crop : task.pool) {
      Stream stream(crop.seed, "given");
      scores.rank.push_back(static_cast<float>(stream.below(30)) - 15);
      scores.other.push_back(static_cast<float>(stream.below(30)) - 15);
      scores.logit.push_back(static_cast<float>(stream.normal()));
      scores.length.push_back(static_cast<float>(stream.uniform()));
      scores.cluster.push_back(static_cast<int64_t>(stream.below(7)));
      *scores.spread += scores.length.back() / static_cast<double>(task.pool.size());
    }
    return scores;
  }
};

// Against one process, which tests/mining_miner_test.cpp compares with a full sort.
TEST_P(TeamOf, MinesTheSetOfOneProcess) {
  std::vector<MiningTask> tasks;
  for (uint64_t round = 0; round < 24; ++round) {
    Stream stream(5, "rounds", round);
    MiningTask task;
    const auto size = static_cast<int64_t>(1 + stream.below(300));
    task.pool = draw_pool(1 + stream.below(100), size, round, 0);
    if (round % 2 > 0) task.settings.max_per_image = 1;
    if (round % 3 > 0) task.settings.skip = 0.1;
    task.settings.random = round % 4 * 0.2;
    task.settings.select = static_cast<int64_t>(1 + stream.below(size / 8 + 1));
    task.seed = round;
    try {
      check_select(task.pool, task.settings);
      tasks.push_back(task);
    } catch (const Error&) {
    }
  }
  ASSERT_GT(tasks.size(), 12u);
  as_team(GetParam(), [&](const Team& team) {
    std::vector<Crop> last;
    for (const MiningTask& task : tasks) {
      const Mined one = mine(Given(), task, last), all = mine(Given(), task, last, team);
      ASSERT_EQ(one.crops.size(), all.crops.size());
      for (size_t i = 0; i < one.crops.size(); ++i) ASSERT_EQ(one.crops[i].seed, all.crops[i].seed);
      const auto &a = one.diagnostics, &b = all.diagnostics;
      EXPECT_NEAR(*a.pool_abs_logit, *b.pool_abs_logit, 1e-12);
      EXPECT_NEAR(*a.mined_p_outlier, *b.mined_p_outlier, 1e-12);
      EXPECT_NEAR(*a.mined_length, *b.mined_length, 1e-12);
      EXPECT_NEAR(*a.pool_clusters, *b.pool_clusters, 1e-9);
      EXPECT_NEAR(*a.mined_clusters, *b.mined_clusters, 1e-9);
      EXPECT_NEAR(*a.spread, *b.spread, 1e-6);
      EXPECT_DOUBLE_EQ(*a.draw_overlap, *b.draw_overlap);
      EXPECT_EQ(a.last_overlap, b.last_overlap);
      last = all.crops;
    }
  });
}

// What is exchanged to mine N of a pool does not grow with the pool: counts, and N numbers.
TEST(Ranks, DoNotExchangeScores) {
  const auto bytes = [](int64_t pool) {
    int64_t sent = 0;
    as_team(2, [&](const Team& team) {
      MiningTask task;
      task.pool = draw_pool(pool, pool, 1, 0);
      task.settings.select = 100;
      mine(Given(), task, {}, team);
      if (team.first()) sent = team.bytes_sent();
    });
    return sent;
  };
  const int64_t few = bytes(1000), many = bytes(100000);
  EXPECT_LT(many, 200000);
  EXPECT_NEAR(static_cast<double>(few), static_cast<double>(many), 100 * 8);
}

}  // namespace
}  // namespace poem
