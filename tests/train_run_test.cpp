#include "poem/training.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/file.h"
#include "core/interrupts.h"
#include "core/npy.h"
#include "core/safetensors.h"
#include "expect_error.h"
#include "poem/detector.h"
#include "poem/metrics.h"
#include "poem/runtime.h"
#include "poem/scores.h"
#include "release_interrupts.h"
#include "temporary_folder.h"
#include "train/data.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

// Training logs every epoch; in tests only warnings are worth a line.
struct Quiet : testing::Environment {
  void SetUp() override { set_up_logging(true); }
};
[[maybe_unused]] const auto* const kQuiet = testing::AddGlobalTestEnvironment(new Quiet);

const c10::Device kCpu(c10::kCPU);

Config points() {
  Config config;
  config.data.train = "world2d:train:200";
  config.data.outliers = {"world2d:outliers:500"};
  config.data.test = "world2d:test:100";
  config.data.ood = {"far=world2d:ood:100"};
  config.data.size = 1;
  config.data.validation = 0.2;
  config.network.name = "mlp";
  config.network.mean = {0, 0};
  config.network.std = {2, 2};
  config.mining.pool = 300;
  config.train.epochs = 3;
  config.train.learning_rate = 0.01;
  return config;
}

std::vector<nlohmann::json> metrics(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(read_file(path));
  for (std::string line; std::getline(text, line);) {
    lines.push_back(nlohmann::json::parse(line));
    lines.back().erase("seconds");
  }
  return lines;
}

void expect_same_run(const std::string& a, const std::string& b) {
  for (const char* file : {"/detector.safetensors", "/results.json", "/results.csv", "/config.yaml"}) {
    EXPECT_EQ(read_file(a + file), read_file(b + file)) << file;
  }
  EXPECT_EQ(metrics(a + "/metrics.jsonl"), metrics(b + "/metrics.jsonl"));
}

TEST(Run, LeavesAFolderThatAnotherRunRepeats) {
  TemporaryFolder folder;
  const RunOutcome outcome = start_run(points(), folder / "a", false, kCpu);
  EXPECT_TRUE(outcome.finished);
  EXPECT_TRUE(outcome.results);
  start_run(points(), folder / "b", false, kCpu);
  expect_same_run(folder / "a", folder / "b");
  EXPECT_EQ(metrics(folder / "a/metrics.jsonl").size(), 3u);
}

TEST(Run, KeepsTheScoresThatTheResultsAreMadeOf) {
  TemporaryFolder folder;
  const RunOutcome outcome = start_run(points(), folder / "a", false, kCpu);
  const auto scores = [&](const char* name) {
    return to_doubles(read_npy(folder / "a/scores" + "/" + name + ".npy"));
  };
  const OodMetrics metrics = ood_metrics(scores("id"), scores("far"));
  ASSERT_EQ(scores("id").size(), 100u);
  EXPECT_EQ(metrics.fpr95, outcome.results->sets[0].metrics.fpr95);
  EXPECT_EQ(metrics.auroc, outcome.results->sets[0].metrics.auroc);
  EXPECT_FALSE(fs::exists(folder / "a/gallery"));  // points have no pictures
}

TEST(Run, RefusesNamesOfTestSetsThatCannotBeFiles) {
  TemporaryFolder folder;
  for (const std::string& name :
       {std::string("id"), std::string("a/b"), std::string(201, 'x'), std::string("a\0b", 3)}) {
    Config config = points();
    config.data.ood = {name + "=world2d:ood:10"};
    expect_error([&] { start_run(config, folder / "a", false, kCpu); }, {"data.ood", "choose another name"});
    EXPECT_FALSE(fs::exists(folder / "a"));
  }
}

TEST(Run, TheThresholdKeeps95PercentOfTheValidationImages) {
  TemporaryFolder folder;
  start_run(points(), folder / "a", false, kCpu);
  const Detector detector = Detector::load(detector_path(folder / "a"));
  const TrainingData data = load_training_data(points());
  int64_t known = 0;
  for (const Verdict& verdict : detector.judge(subset(data.id, data.validation_rows))) known += verdict.known;
  EXPECT_EQ(known, 38);  // of 40
}

TEST(Run, ResumedItEndsTheSame) {
  TemporaryFolder folder;
  Config config = points();
  config.mining.miner = "random";  // scores nothing, so that Ctrl-C is first noticed after a batch
  start_run(config, folder / "whole", false, kCpu);
  catch_interrupts();
  std::raise(SIGINT);
  EXPECT_FALSE(start_run(config, folder / "cut", false, kCpu).finished);
  expect_error([&] { detector_path(folder / "cut"); }, {"no detector yet", "resume the run"});
  for (int batch = 1; batch < 9; ++batch) {  // 160 images: 3 batches, 3 epochs
    catch_interrupts();
    std::raise(SIGINT);
    EXPECT_FALSE(resume_run(folder / "cut", kCpu).finished);
  }
  EXPECT_EQ(metrics(folder / "cut/metrics.jsonl").size(), 3u);
  catch_interrupts();
  EXPECT_TRUE(resume_run(folder / "cut", kCpu).finished);  // only what follows the training was left
  release_interrupts();
  expect_same_run(folder / "whole", folder / "cut");
}

TEST(Run, TheDetectorAndEveryEvaluationHaveTheAveragedWeights) {
  TemporaryFolder folder;
  Config config = points();
  config.train.average = 0.9;
  config.train.evaluate_every = 1;
  start_run(config, folder / "a", false, kCpu);
  const TensorFile state = read_safetensors(folder / "a/checkpoint/state.safetensors"),
                   detector = read_safetensors(folder / "a/detector.safetensors");
  ASSERT_FALSE(detector.tensors.empty());
  for (const auto& [name, tensor] : detector.tensors) {
    if (name == "held_out.scores") continue;  // of the detector, not of its network
    EXPECT_TRUE(tensor.equal(state.tensor("average." + name))) << name;
    EXPECT_FALSE(tensor.equal(state.tensor("network." + name))) << name;
  }
  const auto results = nlohmann::json::parse(read_file(folder / "a/results.json"));
  EXPECT_EQ(metrics(folder / "a/metrics.jsonl").back()["results"]["mean"], results["mean"]);

  const std::string bytes = read_file(folder / "a/detector.safetensors");
  fs::remove(folder / "a/detector.safetensors");
  EXPECT_TRUE(resume_run(folder / "a", kCpu).finished);
  EXPECT_EQ(read_file(folder / "a/detector.safetensors"), bytes);
}

TEST(Run, ToldToEndInTheFirstEpochItIsSaved) {
  TemporaryFolder folder;
  Config config = points();
  config.mining.miner = "random";  // scores nothing: the signal is first noticed after a batch
  start_run(config, folder / "whole", false, kCpu);
  for (const int signal : {SIGINT, SIGTERM}) {
    catch_interrupts();
    std::raise(signal);
    EXPECT_FALSE(start_run(config, folder / "cut", true, kCpu).finished);
    EXPECT_TRUE(fs::exists(folder / "cut/checkpoint/state.safetensors"));
    catch_interrupts();
    EXPECT_TRUE(resume_run(folder / "cut", kCpu).finished);
    expect_same_run(folder / "whole", folder / "cut");
  }
  release_interrupts();
}

// What a run that goes on loses, it loses after its new state is on disk. A folder where the checkpoint would
// be staged stands for a full disk.
TEST(Run, ThatGoesOnKeepsItsResultsUntilTheNextCheckpoint) {
  TemporaryFolder folder;
  Config config = points();
  config.train.epochs = 2;
  start_run(config, folder / "run", false, kCpu);
  const std::string detector = read_file(folder / "run/detector.safetensors"),
                    results = read_file(folder / "run/results.json");
  fs::create_directories(folder / "run/checkpoint/state.safetensors.tmp/full");
  EXPECT_THROW(resume_run(folder / "run", kCpu, {"train.epochs=3"}), Error);
  EXPECT_EQ(read_file(folder / "run/detector.safetensors"), detector);
  EXPECT_EQ(read_file(folder / "run/results.json"), results);
  fs::remove_all(folder / "run/checkpoint/state.safetensors.tmp");
  EXPECT_TRUE(resume_run(folder / "run", kCpu).finished);
  EXPECT_NE(read_file(folder / "run/detector.safetensors"), detector);
}

// An evaluation that comes late must not take the half-trained network of the next epoch for the last one's.
TEST(Run, StoppedInsideOfAnEpochItDoesNotEvaluateTheEpochBefore) {
  TemporaryFolder folder;
  Config config = points();
  config.mining.miner = "random";            // scores nothing: the signal is first noticed after a batch
  for (int batch = 0; batch < 4; ++batch) {  // three batches are an epoch
    catch_interrupts();
    std::raise(SIGINT);
    EXPECT_FALSE(
        (batch == 0 ? start_run(config, folder / "run", false, kCpu) : resume_run(folder / "run", kCpu))
            .finished);
  }
  catch_interrupts();
  EXPECT_TRUE(resume_run(folder / "run", kCpu, {"train.evaluate_every=1"}).finished);
  release_interrupts();
  const std::vector<nlohmann::json> lines = metrics(folder / "run/metrics.jsonl");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_FALSE(lines[0].contains("results"));
  EXPECT_TRUE(lines[1].contains("results"));
  EXPECT_TRUE(lines[2].contains("results"));
}

// At one learning rate a run that goes on is the same as one that was so long from the start: also the queue,
// which does not hold the last epoch of a finished run.
TEST(Run, GoesOnToMoreEpochs) {
  for (const QueueFeatures features : {QueueFeatures::kStored, QueueFeatures::kFresh}) {
    TemporaryFolder folder;
    Config config = points();
    config.train.milestones = {};
    config.queue.features = features;
    config.train.epochs = 5;
    start_run(config, folder / "whole", false, kCpu);
    config.train.epochs = 2;
    start_run(config, folder / "grown", false, kCpu);
    EXPECT_TRUE(resume_run(folder / "grown", kCpu, {"train.epochs=4"}).finished);
    EXPECT_TRUE(resume_run(folder / "grown", kCpu, {"train.epochs=5"}).finished);
    expect_same_run(folder / "whole", folder / "grown");
  }
}

TEST(Run, GoingOnHasNoResultsOfBefore) {
  TemporaryFolder folder;
  Config config = points();
  config.mining.miner = "random";
  start_run(config, folder / "a", false, kCpu);
  catch_interrupts();
  std::raise(SIGINT);
  EXPECT_FALSE(resume_run(folder / "a", kCpu, {"train.epochs=9"}).finished);
  release_interrupts();
  for (const char* file : {"detector.safetensors", "results.json", "results.csv", "scores", "scores.csv"})
    EXPECT_FALSE(fs::exists(folder / "a/" + file)) << file;
  expect_error([&] { resume_run(folder / "a", kCpu, {"train.epochs=3"}); },
               {"train.epochs", "3", "4", "at least as many"});
  EXPECT_TRUE(resume_run(folder / "a", kCpu, {"train.epochs=4"}).finished);
  EXPECT_EQ(metrics(folder / "a/metrics.jsonl").size(), 4u);
}

TEST(Run, WhatWasTrainedCannotBeChanged) {
  TemporaryFolder folder;
  start_run(points(), folder / "a", false, kCpu);
  const std::string config = read_file(folder / "a/config.yaml");
  for (const char* set : {"seed=1", "mining.pool=200", "train.learning_rate=0.1", "train.pretrain=1"}) {
    expect_error([&] { resume_run(folder / "a", kCpu, {set}); },
                 {std::string("set ") + set, "cannot change", "train.epochs", "start another run"});
  }
  EXPECT_EQ(read_file(folder / "a/config.yaml"), config);
}

TEST(Run, TheRateOfTheThresholdCanBeChosenAndIsRecorded) {
  TemporaryFolder folder;
  Config config = points();
  config.tpr = 0.5;
  start_run(config, folder / "a", false, kCpu);
  const TrainingData data = load_training_data(config);
  for (const auto& [tpr, kept] : {std::pair(0.5, 20), std::pair(0.8, 32)}) {
    const Detector detector = Detector::load(detector_path(folder / "a"));
    int64_t known = 0;
    for (const Verdict& verdict : detector.judge(subset(data.id, data.validation_rows)))
      known += verdict.known;
    EXPECT_EQ(known, kept);  // of 40
    EXPECT_EQ(detector.calibration->tpr, tpr);
    EXPECT_EQ(detector.calibration->images, 40);
    const auto told = nlohmann::json::parse(read_file(folder / "a/results.json")).at("calibration");
    EXPECT_EQ(told.at("tpr"), tpr);
    EXPECT_EQ(told.at("images"), 40);
    EXPECT_EQ(told.at("kept_low"), kept_share({tpr, 40}).low);
    EXPECT_EQ(told.at("kept_high"), kept_share({tpr, 40}).high);
    resume_run(folder / "a", kCpu, {"threshold.tpr=0.8"});
  }
}

TEST(Run, StoppedWhileTheMinerScoresItEndsTheSame) {
  TemporaryFolder folder;
  start_run(points(), folder / "whole", false, kCpu);
  catch_interrupts();
  std::raise(SIGINT);
  EXPECT_FALSE(start_run(points(), folder / "cut", false, kCpu).finished);
  release_interrupts();
  EXPECT_FALSE(fs::exists(folder / "cut/checkpoint/state.safetensors"));
  EXPECT_TRUE(resume_run(folder / "cut", kCpu).finished);
  expect_same_run(folder / "whole", folder / "cut");
}

TEST(Run, ResumedAfterAKillBetweenFilesItEndsTheSame) {
  TemporaryFolder folder;
  start_run(points(), folder / "whole", false, kCpu);
  start_run(points(), folder / "cut", false, kCpu);
  // Killed after the last line of metrics.jsonl was begun, before the detector was written.
  fs::remove(folder / "cut/detector.safetensors");
  fs::remove(folder / "cut/results.json");
  std::string lines = read_file(folder / "cut/metrics.jsonl");
  write_file(folder / "cut/metrics.jsonl", lines + R"({"epoch": 4, "lo)");
  EXPECT_TRUE(resume_run(folder / "cut", kCpu).finished);
  EXPECT_EQ(Detector::load(folder / "cut/detector.safetensors").threshold,
            Detector::load(folder / "whole/detector.safetensors").threshold);
  // Killed before the first checkpoint: from the start.
  fs::remove_all(folder / "cut/checkpoint");
  make_output_folder(folder / "cut/checkpoint");
  EXPECT_TRUE(resume_run(folder / "cut", kCpu).finished);
  expect_same_run(folder / "whole", folder / "cut");
}

TEST(Run, ForceReplacesARunOnlyWhenTheNewOneCanStart) {
  TemporaryFolder folder;
  start_run(points(), folder / "a", false, kCpu);
  folder.put("a/gallery/leftover", "x");
  expect_error([&] { start_run(points(), folder / "a", false, kCpu); }, {"exists already", "option force"});
  Config wrong = points();
  wrong.data.train = folder / "no such file";
  expect_error([&] { start_run(wrong, folder / "a", true, kCpu); }, {"no such file"});
  EXPECT_TRUE(fs::exists(folder / "a/detector.safetensors"));
  Config other = points();
  other.seed = 2;
  start_run(other, folder / "a", true, kCpu);
  EXPECT_FALSE(fs::exists(folder / "a/gallery/leftover"));
  start_run(other, folder / "b", false, kCpu);
  expect_same_run(folder / "a", folder / "b");
  folder.put("a/letter", "precious");
  expect_error([&] { start_run(other, folder / "a", true, kCpu); },
               {"letter", "did not create", "never replaced"});
  EXPECT_TRUE(fs::exists(folder / "a/detector.safetensors"));
}

TEST(Run, AnErrorBeforeTheFirstCheckpointLeavesNoFolder) {
  TemporaryFolder folder;
  Config config = points();
  config.mining.pool = 10;
  expect_error([&] { start_run(config, folder / "a", false, kCpu); }, {"mining.select"});
  EXPECT_FALSE(fs::exists(folder / "a"));
  config = points();
  config.data.ood = {"far=world2d:nothing:9"};
  expect_error([&] { start_run(config, folder / "a", false, kCpu); }, {"world2d:nothing"});
  EXPECT_FALSE(fs::exists(folder / "a"));
}

TEST(Run, TestSetsThatDoNotFitAreErrorsBeforeTraining) {
  TemporaryFolder folder;
  Config config = points();
  config.data.ood = {"images=world:digits:3"};  // three channels instead of two
  expect_error([&] { start_run(config, folder / "a", false, kCpu); }, {"world:digits", "3 channels"});
  EXPECT_FALSE(fs::exists(folder / "a"));
}

TEST(Run, WhatIsNoRunIsAnError) {
  TemporaryFolder folder;
  folder.put("photos/a.yaml", "x");
  expect_error([&] { resume_run(folder / "photos", kCpu); }, {"photos", "is not a run"});
  expect_error([&] { resume_run(folder / "none", kCpu); }, {"none", "is not a run"});
  expect_error([&] { detector_path(folder / "photos"); }, {"photos", "is a folder, but not a run"});
  folder.put("photos/b.safetensors", "x");
  EXPECT_EQ(detector_path(folder / "photos/b.safetensors"), folder / "photos/b.safetensors");
}

TEST(Run, ArgumentsInTheWrongOrderAreRecognised) {
  TemporaryFolder folder;
  folder.put("photos/cat/a.jpg", "\xff\xd8 and so on, for long enough");
  const auto expect_refused = [&](const std::string& path, const std::string& what,
                                  const std::string& remedy) {
    expect_error([&] { detector_path(folder / path); }, {path, "is " + what + ", not a detector", remedy});
  };
  folder.put("a.yaml", "x");
  folder.put("a.onnx", "\x08\x08\x12\x04poem: and so on");
  folder.put("a.pth", "PK\x03\x04 and so on, for long enough");
  folder.put("a.csv", "path,verdict,score");
  expect_refused("photos/cat/a.jpg", "an image", "the detector comes first");
  expect_refused("photos", "a folder of images", "the detector comes first");
  expect_refused("a.yaml", "a config", "the detector comes first");
  expect_refused("a.onnx", "an ONNX model", "exported from");
  expect_refused("a.pth", "a file of PyTorch", "network.init");
  expect_refused("a.csv", "something else than a safetensors file", "the detector comes first");
  folder.put("cut.safetensors", std::string("\x40\0\0\0\0\0\0\0{\"__met", 14));
  EXPECT_EQ(detector_path(folder / "cut.safetensors"), folder / "cut.safetensors");
}

TEST(Run, ACheckpointThatDoesNotFitIsAnError) {
  TemporaryFolder folder;
  start_run(points(), folder / "a", false, kCpu);
  const std::string path = folder / "a/checkpoint/state.safetensors";
  const TensorFile file = read_safetensors(path);
  const auto expect = [&](const std::string& name, const at::Tensor& tensor, const std::string& words) {
    TensorFile other = file;
    other.tensors[name] = tensor;
    write_safetensors(path, other);
    expect_error([&] { resume_run(folder / "a", kCpu); }, {path, "'" + name + "'", words});
  };
  at::Tensor mined = file.tensor("mined").clone();
  mined[0][0] = 1000000;
  expect("mined", mined, "beyond");
  mined[0][0] = -1;
  expect("mined", mined, "beyond");
  expect("position", at::zeros({0}, at::kLong), "shape");
  expect("position", at::tensor({-1l, 0l}), "impossible");
  expect("position", at::tensor({0l, 1000l}), "impossible");
  expect("seconds", at::zeros({3}), "type");
  expect("queue.epochs", at::zeros({1000}, at::kLong), "list of epochs");
  expect("queue.0.gram", at::zeros({2, 2}, at::kDouble), "shape");
  expect("queue.0.moment", file.tensor("queue.0.moment") * std::nan(""), "not finite");
  const auto network = std::find_if(file.tensors.begin(), file.tensors.end(),
                                    [](const auto& entry) { return entry.first.rfind("network.", 0) == 0; });
  expect(network->first, at::zeros({1000000}), "shape");
}

TEST(Run, OtherDataThanTheCheckpointsIsAnError) {
  TemporaryFolder folder;
  start_run(points(), folder / "a", false, kCpu);
  Config fewer = points();
  fewer.data.train = "world2d:train:150";
  write_file(folder / "a/config.yaml", to_yaml(fewer));
  expect_error([&] { resume_run(folder / "a", kCpu); }, {"state.safetensors", "images"});
}

}  // namespace
}  // namespace poem
