#include "poem/detector.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "core/safetensors.h"
#include "expect_error.h"
#include "poem/evaluate.h"
#include "poem/version.h"
#include "temporary_folder.h"
#include "world/world.h"

namespace poem {
namespace {

NetworkSpec small_network() {
  NetworkSpec spec;
  spec.name = "wideresnet";
  spec.depth = 10;
  spec.classes = 8;
  return spec;
}

// An untrained network whose BatchNorm statistics come from a few images, so that nothing is at its default.
Detector small_detector() {
  Detector detector{make_network(small_network(), 5), make_score("energy"), 1.25,
                    draw_world("train", 8, 1).class_names};
  const at::NoGradGuard no_grad;
  detector.network->train(true);
  for (int i = 0; i < 20; ++i) detector.network->features(draw_world("train", 32, 1).pixels);
  return detector;
}

TEST(Detector, LoadedItGivesTheSameLogitsAndSettings) {
  TemporaryFolder folder;
  const Detector detector = small_detector();
  detector.save(folder / "d");
  const Detector loaded = Detector::load(folder / "d");
  const ImageSet images = draw_world("test", 40, 2);
  EXPECT_TRUE(detector.logits(images).equal(loaded.logits(images)));
  EXPECT_EQ(loaded.score->name(), "energy");
  EXPECT_EQ(loaded.threshold, detector.threshold);
  EXPECT_EQ(loaded.class_names, detector.class_names);
  EXPECT_EQ(loaded.size, 32);
}

TEST(Detector, ThresholdsKeepEveryBit) {
  TemporaryFolder folder;
  Detector detector = small_detector();
  for (const double threshold : {0.1, -1e-17, 1.0 / 3, static_cast<double>(0.1f)}) {
    detector.threshold = threshold;
    detector.save(folder / "d");
    EXPECT_EQ(*Detector::load(folder / "d").threshold, threshold);
  }
  detector.threshold = std::nullopt;
  detector.save(folder / "d");
  EXPECT_FALSE(Detector::load(folder / "d").threshold);
}

TEST(Detector, KeepsWhatItsThresholdRestsOn) {
  TemporaryFolder folder;
  Detector detector = small_detector();
  detector.save(folder / "old");  // as files of older versions are
  EXPECT_FALSE(Detector::load(folder / "old").calibration);
  detector.calibration = Calibration{0.9, 24};
  detector.save(folder / "new");
  const Detector loaded = Detector::load(folder / "new");
  ASSERT_TRUE(loaded.calibration);
  EXPECT_EQ(loaded.calibration->tpr, 0.9);
  EXPECT_EQ(loaded.calibration->images, 24);
  detector.calibration = Calibration{0.9, 0};
  detector.save(folder / "bad");
  expect_error([&] { Detector::load(folder / "bad"); }, {"bad", "damaged", "calibration"});
}

TEST(Detector, SavedTwiceItGivesTheSameBytes) {
  TemporaryFolder folder;
  small_detector().save(folder / "1");
  small_detector().save(folder / "2");
  Detector::load(folder / "1").save(folder / "3");
  EXPECT_EQ(read_file(folder / "1"), read_file(folder / "2"));
  EXPECT_EQ(read_file(folder / "1"), read_file(folder / "3"));
}

TEST(Detector, LogitsDoNotDependOnTheBlock) {
  const Detector detector = small_detector();
  const ImageSet many = draw_world("test", 510, 2);  // more than one block
  const at::Tensor logits = detector.logits(many);
  ASSERT_EQ(logits.sizes(), (std::vector<int64_t>{510, 8}));
  ImageSet last = many;
  last.pixels = many.pixels.narrow(0, 505, 5);
  EXPECT_TRUE(at::allclose(detector.logits(last), logits.narrow(0, 505, 5), 1e-4, 1e-4));
}

TEST(Detector, AnImageIsKnownFromTheThresholdOn) {
  Detector detector = small_detector();
  const ImageSet images = draw_world("test", 30, 2);
  const at::Tensor logits = detector.logits(images);
  for (const char* score : {"energy", "msp"}) {
    detector.score = make_score(score);
    std::vector<float> scores = to_floats(detector.scores(images));
    std::vector<float> sorted = scores;
    std::sort(sorted.begin(), sorted.end());
    detector.threshold = sorted[10];  // exactly one image's score
    const std::vector<Verdict> verdicts = detector.judge(images);
    ASSERT_EQ(verdicts.size(), 30u);
    int known = 0;
    for (size_t i = 0; i < verdicts.size(); ++i) {
      EXPECT_EQ(verdicts[i].score, scores[i]);
      EXPECT_EQ(verdicts[i].known, scores[i] >= sorted[10]);
      known += verdicts[i].known;
      for (int64_t k = 0; k < 8; ++k) {
        EXPECT_GE(logits[i][verdicts[i].label].item<float>(), logits[i][k].item<float>());
      }
    }
    EXPECT_EQ(known, 20);
  }
}

TEST(Detector, WithoutAThresholdItDoesNotJudge) {
  Detector detector = small_detector();
  detector.threshold = std::nullopt;
  expect_error([&] { detector.judge(draw_world("test", 2, 2)); }, {"no threshold", "data.validation"});
}

TEST(Detector, OfNoImagesItSaysNothing) {
  const Detector detector = small_detector();
  ImageSet none = draw_world("test", 1, 2);
  none.pixels = none.pixels.narrow(0, 0, 0);
  EXPECT_EQ(detector.logits(none).sizes(), (std::vector<int64_t>{0, 8}));
  EXPECT_TRUE(detector.judge(none).empty());
}

TEST(Detector, SavesClassNamesThatAreNotUtf8) {
  TemporaryFolder folder;
  Detector detector = small_detector();
  detector.class_names[0] = "caf\xe9";  // a folder's name in Latin-1
  detector.class_names[1] = "犬";
  detector.save(folder / "d");
  const Detector loaded = Detector::load(folder / "d");
  EXPECT_EQ(loaded.class_names[0].substr(0, 3), "caf");
  EXPECT_EQ(loaded.class_names[1], "犬");
}

TEST(Detector, WhatIsNoDetectorIsAnError) {
  TemporaryFolder folder;
  small_detector().save(folder / "d");
  TensorFile file = read_safetensors(folder / "d");
  const auto expect = [&](const TensorFile& changed, const std::vector<std::string>& words) {
    write_safetensors(folder / "changed", changed);
    expect_error([&] { Detector::load(folder / "changed"); }, words);
  };
  TensorFile other = file;
  other.metadata["format"] = "poem-detector-9";
  other.metadata["poem"] = "9.1.0";
  expect(other,
         {"changed", "poem-detector-9", "this poem reads poem-detector-2", "written by poem 9.1.0: update"});
  other.metadata.erase("poem");
  expect(other, {"changed", "(update poem)"});
  other.metadata["format"] = "poem-detector-1";
  expect(other, {"changed", "poem-detector-1", "the poem that wrote it"});
  other = file;
  other.metadata.clear();
  expect(other, {"changed", "no entry 'format'"});
  other = file;
  other.metadata["detector"] = "{}";
  expect(other, {"changed", "description is damaged"});
  other = file;
  other.tensors.erase(other.tensors.begin());
  expect(other, {"changed", "no tensor"});
  other = file;
  other.tensors.begin()->second = at::ones({1, 2, 3});
  expect(other, {"changed", "has shape", "another network"});
  folder.put("text", "hello there, I am text");
  expect_error([&] { Detector::load(folder / "text"); }, {"text", "safetensors"});
}

// Everything here would be built, or believed, before the first tensor is compared.
TEST(Detector, ADescriptionThatDoesNotFitItsTensorsIsAnError) {
  TemporaryFolder folder;
  small_detector().save(folder / "d");
  const TensorFile file = read_safetensors(folder / "d");
  const auto expect = [&](const char* pointer, const nlohmann::json& value, std::vector<std::string> words) {
    TensorFile other = file;
    auto about = nlohmann::json::parse(other.metadata["detector"]);
    about[nlohmann::json::json_pointer(pointer)] = value;
    other.metadata["detector"] = about.dump();
    write_safetensors(folder / "changed", other);
    words.push_back(folder / "changed");
    expect_error([&] { Detector::load(folder / "changed"); }, words);
  };
  expect("/network/width", 2, {"tensor 'block1.layer1.conv1.weight' has shape", "another network"});
  expect("/network/width", 1000000, {"tensor 'block1.layer1.conv1.weight' has shape", "16000000"});
  expect("/network/width", -1, {"network.width", "is -1"});
  expect("/network/width", 1.5, {"width", "1.5", "whole number"});
  expect("/network/depth", 6000004, {"has no tensor 'block1.layer2.norm1.weight'"});
  expect("/network/depth", 7, {"description is damaged", "network.depth", "7 is not 6n+4"});
  expect("/network/classes", 9000000, {"tensor 'linear.weight' has shape", "9000000"});
  expect("/network/classes", uint64_t{1} << 63, {"network.classes"});
  expect("/network/pixels", -4, {"network.pixels", "is -4"});
  expect("/network/pixels", 100, {"size", "is 32", "takes 100 pixels"});
  expect("/network/head", "density", {"tensor 'linear.weight' has shape"});
  expect("/network/mean", {1.0}, {"network.mean", "1 values", "3 channels"});
  expect("/network/name", "densnet", {"description is damaged", "'densnet'", "nearest is 'densenet'"});
  expect("/score", "enrgy", {"description is damaged", "'enrgy'"});
  expect("/size", 1000000000, {"size", "1000000000", "1 to 4096"});
  expect("/size", 0, {"size", "is 0"});
  expect("/class_names", std::vector<std::string>(9, "x"), {"9 names", "8 outputs"});
  expect("/class_names", std::vector<std::string>(), {"0 names"});
  expect("/class_names/3", "unsure", {"class 'unsure', a word that verdicts use"});
  expect("/class_names/3", nlohmann::json::parse(file.metadata.at("detector"))["class_names"][0],
         {"class_names: has two classes"});
  expect("/quantiles", 3, {"entry 'quantiles', which this poem does not know", version(), "update poem"});
  expect("/network/dropout", 0.5, {"entry 'dropout'", "update poem"});
  expect("/calibration", {{"tpr", 0.95}, {"images", 24}, {"weights", "w"}},
         {"entry 'weights'", "update poem"});
  expect("/unsure", {{"tpr", 0.99}, {"threshold", 1}, {"p", 3}}, {"entry 'p'", "update poem"});
  expect("/score", "reject_energy", {"'reject_energy'", "outputs beyond the classes"});
  expect("/score", "reject", {"'reject'", "outputs beyond the classes"});
  expect("/threshold", "low", {"description is damaged", "threshold: is \"low\""});
  expect("/score", 3, {"description is damaged", "score: is 3"});
  expect("/network", nullptr, {"description is damaged", "name: is missing"});
  const std::string calibration = "calibration: is ", wanted = "not a tpr up to 1 and a number of images";
  expect("/calibration", nullptr, {calibration + "null", wanted});
  expect("/calibration", "95 %", {calibration + "\"95 %\"", wanted});
  expect("/calibration", {0.95, 24}, {calibration + "[0.95,24]", wanted});
  expect("/calibration", {{"tpr", 0.95}}, {calibration + "{\"tpr\":0.95}", wanted});
  expect("/calibration", {{"tpr", "0.95"}, {"images", 24}}, {calibration, wanted});
  expect("/calibration", {{"tpr", true}, {"images", 24}}, {calibration, wanted});
  expect("/calibration", {{"tpr", 0.95}, {"images", 24.5}}, {calibration, wanted});
  expect("/calibration", {{"tpr", 0.95}, {"images", 9e18}}, {calibration, wanted});
  expect("/calibration", {{"tpr", 0.95}, {"images", 9000000000000000000}}, {calibration, wanted});
  expect("/calibration", {{"tpr", 0.95}, {"images", uint64_t{1} << 63}}, {calibration, wanted});
}

TEST(Detector, TensorsOfAnotherTypeNotFiniteOrUnknownAreAnError) {
  TemporaryFolder folder;
  Detector detector = small_detector();
  detector.score = make_score("ash");
  Training training;
  training.head = {at::rand({8, 64}), at::rand({8})};
  detector.score->fit(training);
  detector.save(folder / "d");
  const TensorFile file = read_safetensors(folder / "d");
  EXPECT_NO_THROW(Detector::load(folder / "d"));
  const auto expect = [&](const std::string& name, const at::Tensor& tensor, std::vector<std::string> words) {
    TensorFile other = file;
    other.tensors[name] = tensor;
    write_safetensors(folder / "changed", other);
    words.push_back(folder / "changed");
    words.push_back("'" + name + "'");
    expect_error([&] { Detector::load(folder / "changed"); }, words);
  };
  const at::Tensor bias = file.tensor("linear.bias");
  for (const char* name : {"score.extra", "linear.scale", "held_out.images", "x"})
    expect(name, bias, {"has the tensor", "this poem does not know", "update poem"});
  expect("linear.bias", bias.to(at::kDouble), {"type float64"});
  expect("linear.bias", bias / 0, {"not finite"});
  expect("score.bias", bias * std::nan(""), {"not finite"});
}

double naive_auroc(const std::vector<float>& id, const std::vector<float>& ood) {
  double wins = 0;
  for (float a : id) {
    for (float b : ood) wins += a > b ? 1 : a == b ? 0.5 : 0;
  }
  return wins / static_cast<double>(id.size() * ood.size());
}

TEST(Evaluate, EqualsADirectComputation) {
  Detector detector = small_detector();
  const ImageSet id = draw_world("test", 60, 2), digits = draw_world("digits", 30, 2),
                 scenes = draw_world("scenes", 25, 2);
  for (const char* score : {"energy", "msp"}) {
    const Results results = evaluate(detector, score, {id, {{"digits", digits}, {"scenes", scenes}}});
    ASSERT_EQ(results.sets.size(), 2u);
    detector.score = make_score(score);
    const at::Tensor logits = detector.logits(id);
    const std::vector<float> id_scores = to_floats(detector.scores(id));
    double auroc_sum = 0;
    for (const auto& [set, images] : {std::pair{0, digits}, std::pair{1, scenes}}) {
      const auto ood = to_floats(detector.scores(images));
      EXPECT_NEAR(results.sets[set].metrics.auroc, naive_auroc(id_scores, ood), 1e-12);
      std::vector<float> sorted = id_scores;
      std::sort(sorted.begin(), sorted.end());
      const float threshold = sorted[3];  // 57 of 60 are 95 %
      const auto above = std::count_if(ood.begin(), ood.end(), [&](float s) { return s >= threshold; });
      EXPECT_DOUBLE_EQ(results.sets[set].metrics.fpr95, static_cast<double>(above) / ood.size());
      auroc_sum += results.sets[set].metrics.auroc;
    }
    EXPECT_EQ(results.sets[1].name, "scenes");
    EXPECT_DOUBLE_EQ(results.mean.auroc, auroc_sum / 2);
    int right = 0;
    for (int64_t i = 0; i < 60; ++i) {
      right += logits[i].argmax().item<int64_t>() == id.labels[i].item<int64_t>();
    }
    EXPECT_DOUBLE_EQ(*results.id_accuracy, right / 60.0);
  }
}

TEST(Evaluate, ImagesWithoutLabelsGiveNoAccuracy) {
  ImageSet id = draw_world("test", 20, 2);
  id.labels.reset();
  EXPECT_FALSE(
      evaluate(small_detector(), "energy", {id, {{"digits", draw_world("digits", 10, 2)}}}).id_accuracy);
}

TEST(Evaluate, ALabelTheDetectorDoesNotKnowIsAnError) {
  ImageSet id = draw_world("test", 20, 2);
  id.class_names = {"0", "1", "2", "3", "4", "5", "6", "7", "8"};
  id.labels[7] = 8;
  expect_error(
      [&] {
        evaluate(small_detector(), "energy", {id, {{"digits", draw_world("digits", 10, 2)}}});
      },
      {"has label 8", "knows 8 classes"});
}

TEST(Evaluate, TheOrderOfTheTestClassesDoesNotMatter) {
  const ImageSet id = draw_world("test", 40, 2);
  ImageSet turned = id;  // the same images, their classes listed backwards
  std::reverse(turned.class_names.begin(), turned.class_names.end());
  turned.labels = 7 - id.labels;
  const std::vector<TestSet> ood = {{"digits", draw_world("digits", 10, 2)}};
  const Detector detector = small_detector();
  EXPECT_EQ(*evaluate(detector, "energy", {turned, ood}).id_accuracy,
            *evaluate(detector, "energy", {id, ood}).id_accuracy);
}

TEST(CheckFits, MatchesClassesByNameAndUnnamedLabelsByPosition) {
  ImageSet id{"test/", at::zeros({2, 3, 4, 4}, at::kByte), at::tensor({0, 1}, at::kLong), {"fish", "tree"}};
  check_fits(3, {"boat", "fish", "tree"}, {id, {}});
  expect_error([&] { check_fits(3, {"boat", "fish"}, {id, {}}); }, {"test/", "'tree'", "boat and fish"});
  check_fits(3, {"0", "1"}, {id, {}});  // the detector has no names
  id.class_names = {"0", "1"};
  check_fits(3, {"boat", "fish"}, {id, {}});
  expect_error([&] { check_fits(3, {"boat"}, {id, {}}); }, {"has label 1", "knows 1 classes"});
  expect_error([&] { check_fits(1, {"boat", "fish"}, {id, {}}); }, {"3 channels", "takes 1"});
}

}  // namespace
}  // namespace poem
