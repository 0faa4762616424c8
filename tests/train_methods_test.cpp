// Every method trains through the one epoch loop; what is special to some of them.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/file.h"
#include "expect_error.h"
#include "images/pool.h"
#include "poem/training.h"
#include "temporary_folder.h"
#include "train/trainer.h"

namespace poem {
namespace {

const c10::Device kCpu(c10::kCPU);

Config base(const std::vector<std::string>& assignments) {
  TemporaryFolder folder;
  write_file(folder / "c.yaml", R"(
data: {train: "world:train:80", outliers: "world:outliers:120", size: 12, validation: 0.1}
network: {name: wideresnet, depth: 10}
mining: {pool: 100}
train: {epochs: 2, batch: 32, outlier_batch: 32, learning_rate: 0.02}
queue: {epochs: 2}
)");
  return read_config(folder / "c.yaml", assignments);
}

const std::vector<std::vector<std::string>> kMethods = {
    {"objective.name=oe", "objective.beta=0.5", "mining.miner=random", "score=msp"},
    {"objective.name=sofl", "objective.beta=5", "mining.miner=random", "train.pretrain=1"},
    {"objective.name=ccu", "mining.miner=random", "objective.components=5", "score=msp"},
    {"objective.name=outlier_class", "objective.beta=1", "mining.miner=greedy", "mining.skip=0.1",
     "score=reject"},
    {"objective.name=sofl", "objective.beta=5", "mining.miner=dos", "score=reject_energy",
     "outliers.filters=[gaussian, area]"},
    {"mining.miner=diverse", "mining.random=0.2", "mining.skip=0.05"},
    {"objective.name=outlier_class", "objective.beta=1", "mining.miner=thompson"},
    {"objective.name=outlier_class", "objective.beta=1", "mining.miner=logit"},
    {"mining.miner=mean"},
    {"mining.miner=greedy"},
    {"objective.name=supcon", "mining.miner=none", "train.warmup=1", "augment.min_area=0.2",
     "augment.grey=0.2", "augment.brightness=0.4", "augment.jitter_share=0.8"},
};

struct Trained {
  explicit Trained(const Config& c) : config(c), data(load_training_data(c)), trainer(config, data, kCpu) {}
  // Up to the end, or for so many batches.
  bool run(int64_t batches = -1) {
    const auto stop = [&] { return batches >= 0 && --batches <= 0; };
    try {
      while (!trainer.done() && batches != 0) reports.push_back(trainer.run_epoch(stop));
    } catch (const Interrupted&) {
    }
    return trainer.done();
  }
  // A copy: training goes on in the tensors themselves.
  TensorFile state() const {
    const TemporaryFolder folder;
    TensorFile live;
    trainer.store(live);
    write_safetensors(folder / "state", live);
    return read_safetensors(folder / "state");
  }
  Config config;
  TrainingData data;
  Trainer trainer;
  std::vector<EpochReport> reports;
};

// Stopped in the middle of the first epoch that has outliers, and at the end of an epoch.
TEST(Methods, TrainAndResumeToTheSameBits) {
  for (const auto& method : kMethods) {
    Trained whole(base(method));
    ASSERT_TRUE(whole.run()) << method[0];
    ASSERT_EQ(whole.reports.size(), static_cast<size_t>(whole.trainer.epochs()));
    EXPECT_TRUE(std::isfinite(whole.reports.back().loss)) << method[0];
    const TensorFile expected = whole.state();
    const int64_t first = 3 * whole.config.train.pretrain;  // three batches an epoch
    for (const int64_t batches : {first + 2, first + 3}) {
      Trained cut_short(base(method)), rest(base(method));
      ASSERT_FALSE(cut_short.run(batches)) << method[0];
      rest.trainer.load(cut_short.state());
      ASSERT_TRUE(rest.run());
      const TensorFile got = rest.state();
      for (const auto& [name, tensor] : expected.tensors) {
        if (name == "seconds") continue;
        EXPECT_TRUE(at::equal(tensor, got.tensor(name))) << method[0] << " " << batches << " " << name;
      }
    }
  }
}

// NTOM: of the pool those with the smallest p(K+1), after the skipped ones, by the network as it is then.
TEST(Methods, GreedyMinesTheOutliersLeastTakenForSuch) {
  Trained training(base(kMethods[3]));
  ASSERT_FALSE(training.run(3));  // one epoch: the next one's choice is made with these weights
  const auto pool = draw_pool(training.data.outliers.size(), 100, 0, 1);
  Network& network = *training.trainer.network();
  network.train(false);
  const at::Tensor pixels = cut(training.data.outliers, pool.data(), 100, training.data.outlier_cut);
  const auto probabilities = [&] {
    const at::NoGradGuard no_grad;
    return network.logits(network.features(pixels)).softmax(1).select(1, 8);
  };
  const at::Tensor p = probabilities();
  std::vector<std::pair<float, int64_t>> order;
  for (int64_t i = 0; i < 100; ++i) order.emplace_back(p[i].item<float>(), i);
  std::sort(order.begin(), order.end());
  std::set<uint64_t> expected;
  for (int64_t i = 10; i < 10 + 72; ++i) expected.insert(pool[order[i].second].seed);
  ASSERT_FALSE(training.run(1));
  std::set<uint64_t> mined;
  for (const Crop& crop : training.trainer.mined()) mined.insert(crop.seed);
  EXPECT_EQ(mined, expected);
}

// No fit and no choice sees a test set, also when it is evaluated on all along.
TEST(Methods, TestSetsLeaveNoTraceInTheDetector) {
  TemporaryFolder folder;
  Config config = base({"mining.miner=random", "score=mahalanobis", "train.evaluate_every=1"});
  config.data.test = "world:test:40";
  config.data.ood = {"digits=world:digits:30"};
  ASSERT_TRUE(start_run(config, folder / "clean", false, kCpu).finished);
  config.data.ood = {"digits=world:train:64", "noise=world:scenes:20"};
  ASSERT_TRUE(start_run(config, folder / "poisoned", false, kCpu).finished);
  EXPECT_EQ(read_file(folder / "clean/detector.safetensors"),
            read_file(folder / "poisoned/detector.safetensors"));
  EXPECT_NE(read_file(folder / "clean/results.json"), read_file(folder / "poisoned/results.json"));
}

TEST(Methods, LearnOnlyWithTheirOwnOutputs) {
  const auto outputs = [](const std::vector<std::string>& method) {
    return Trained(base(method)).trainer.network()->spec().classes;
  };
  EXPECT_EQ(outputs(kMethods[0]), 8);
  EXPECT_EQ(outputs(kMethods[1]), 8 + 5);
  EXPECT_EQ(outputs(kMethods[2]), 8 + 2);
  EXPECT_EQ(outputs(kMethods[3]), 8 + 1);
  EXPECT_EQ(outputs(kMethods.back()), 128);
}

TEST(Methods, ThePosteriorOfCcuIsOverTheFeaturesAlone) {
  Trained training(base(
      {"objective.name=ccu", "mining.miner=thompson", "objective.components=5", "score=msp", "data.size=8"}));
  ASSERT_TRUE(training.run());
  EXPECT_TRUE(training.reports[1].mining->spread.has_value());
  EXPECT_EQ(training.trainer.posterior().mean().numel(), 64);  // without the two densities of the pixels
}

TEST(Methods, AContrastiveNetworkHasNoAccuracy) {
  Trained training(base(kMethods.back()));
  ASSERT_TRUE(training.run());
  EXPECT_FALSE(training.reports.back().train_accuracy.has_value());
  EXPECT_FALSE(training.reports.back().validation_accuracy.has_value());
}

TEST(Pretraining, IsAStageOfItsOwnOnIdAlone) {
  Trained training(base({"objective.name=sofl", "mining.miner=random", "train.pretrain=3", "train.epochs=2",
                         "train.schedule=cosine"}));
  ASSERT_TRUE(training.run());
  ASSERT_EQ(training.reports.size(), 5u);
  for (int epoch = 0; epoch < 3; ++epoch) {
    EXPECT_FALSE(training.reports[epoch].mining.has_value());
    EXPECT_FALSE(training.reports[epoch].outlier_energy.has_value());
  }
  EXPECT_TRUE(training.reports[3].mining.has_value());
  // 72 images in batches of 32: the last of three steps an epoch is step 8 of 9, then 5 of 6.
  const auto cosine = [](double progress) { return 0.02 * 0.5 * (1 + std::cos(M_PI * progress)); };
  EXPECT_NEAR(training.reports[2].learning_rate, cosine(8.0 / 9), 1e-12);
  EXPECT_NEAR(training.reports[3].learning_rate, cosine(2.0 / 6), 1e-12);
  EXPECT_NEAR(training.reports[4].learning_rate, cosine(5.0 / 6), 1e-12);
}

TEST(Methods, WhatDoesNotFitTogetherIsAnError) {
  expect_error([] { base({"objective.name=oe", "mining.miner=none"}); }, {"oe", "mining.miner"});
  expect_error([] { base({"mining.miner=logit"}); }, {"logit", "outlier_class"});
  expect_error([] { base({"mining.miner=greedy", "score=knn"}); }, {"greedy", "knn"});
  expect_error([] { base({"train.warmup=2"}); }, {"train.warmup", "2"});
  TemporaryFolder folder;
  expect_error(
      [&] {
        start_run(base({"objective.name=ccu", "mining.miner=random"}), folder / "x", false, kCpu);
      },
      {"'energy'", "linear", "msp"});
  expect_error([] { base({"mining.miner=greedly"}); }, {"greedly", "greedy"});
  expect_error([] { base({"objective.name=ou"}); }, {"'ou'", "oe"});
}

TEST(Evaluation, EveryFewEpochsGoesIntoTheMetrics) {
  TemporaryFolder folder;
  Config config = base({"train.epochs=4", "train.evaluate_every=2", "mining.miner=random"});
  config.data.test = "world:test:40";
  config.data.ood = {"digits=world:digits:30"};
  ASSERT_TRUE(start_run(config, folder / "run", false, kCpu).finished);
  std::istringstream lines(read_file(folder / "run/metrics.jsonl"));
  int epoch = 0;
  nlohmann::json last;
  for (std::string line; std::getline(lines, line);) {
    last = nlohmann::json::parse(line);
    EXPECT_EQ(last.contains("results"), ++epoch % 2 == 0);
  }
  nlohmann::json results = nlohmann::json::parse(read_file(folder / "run/results.json"));
  for (const char* key : {"calibration", "at_threshold", "classes", "confusion"})
    results.erase(key);  // said of the last epoch only
  EXPECT_EQ(last["results"], results);
  config.train.evaluate_every = 0;  // looking changes nothing
  ASSERT_TRUE(start_run(config, folder / "blind", false, kCpu).finished);
  EXPECT_EQ(read_file(folder / "run/detector.safetensors"), read_file(folder / "blind/detector.safetensors"));
}

TEST(Evaluation, CountsTheEpochsAfterPretraining) {
  TemporaryFolder folder;
  Config config = base({"objective.name=sofl", "mining.miner=random", "train.pretrain=3", "train.epochs=2",
                        "train.evaluate_every=2"});
  config.data.test = "world:test:40";
  config.data.ood = {"digits=world:digits:30"};
  ASSERT_TRUE(start_run(config, folder / "run", false, kCpu).finished);
  std::istringstream lines(read_file(folder / "run/metrics.jsonl"));
  int epoch = 0;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_EQ(nlohmann::json::parse(line).contains("results"), ++epoch == 5);
  }
  EXPECT_EQ(epoch, 5);
}

}  // namespace
}  // namespace poem
