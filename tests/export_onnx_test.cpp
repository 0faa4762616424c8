#include "export/onnx.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "expect_error.h"
#include "poem/detector.h"
#include "poem/fit.h"
#include "temporary_folder.h"
#include "world/world.h"

namespace poem {
namespace {

constexpr int64_t kSize = 16, kImages = 3;

NetworkSpec network(const std::string& name, HeadKind head = HeadKind::kLinear, int64_t more_outputs = 0) {
  NetworkSpec spec;
  spec.name = name;
  spec.depth = 10;
  spec.growth = 6;
  spec.pixels = kSize * kSize;
  spec.components = 3;
  spec.head = head;
  spec.classes = 8 + more_outputs;
  return spec;
}

ImageSet images_of(const std::string& set, int64_t count) {
  ImageSet images = draw_world(set, count, 1);
  images.pixels = images.pixels.slice(2, 8, 8 + kSize).slice(3, 8, 8 + kSize).contiguous();
  return images;
}

// An untrained network whose BatchNorm has statistics of images, with a score fitted on images and the
// threshold among the scores of the test images.
Detector detector_of(const NetworkSpec& spec, const std::string& score) {
  const IdImages id{images_of("train", 96), images_of("test", 40)};
  Detector detector{make_network(spec, 5), make_score("msp"), 0.0, id.train.class_names, kSize};
  {
    const at::NoGradGuard no_grad;
    detector.network->train(true);
    for (int i = 0; i < 5; ++i) detector.network->features(id.train.pixels.narrow(0, 0, 32));
    if (detector.network->prepares())
      detector.network->prepare(id.train.pixels, images_of("digits", 40).pixels);
  }
  detector.score = fit_scores({score}, detector, id).front();
  std::vector<float> scores = to_floats(detector.scores(images_of("test", kImages)));
  std::sort(scores.begin(), scores.end());
  detector.threshold = (scores[0] + scores[1]) / 2;
  return detector;
}

std::vector<double> flat(const at::Tensor& tensor) { return to_doubles(tensor.flatten()); }

// The model, and what the detector itself says of the images: of its own way to compute, not of what was
// exported.
void write_case(const Detector& detector, const std::string& path) {
  write_file(path + ".onnx", onnx_model(detector));
  const ImageSet images = images_of("test", kImages);
  nlohmann::json outputs;
  std::vector<float> scores = to_floats(detector.scores(images));
  std::vector<int64_t> verdicts;
  for (const Verdict& v : detector.judge(images))
    verdicts.push_back(!v.known ? -1 : detector.network->classifies() ? v.label : 0);
  outputs["score"] = scores;
  outputs["verdict"] = verdicts;
  detector.for_each_batch(images, [&](const Batch& batch) { outputs["features"] = flat(batch.features); });
  if (detector.network->classifies()) {
    outputs["logits"] = flat(detector.logits(images));
    outputs["probability"] = flat(std::get<0>(detector.logits(images).softmax(1).max(1)));
  }
  const uint8_t* pixels = images.pixels.data_ptr<uint8_t>();
  write_file(path + ".json",
             nlohmann::json{{"shape", images.pixels.sizes().vec()},
                            {"images", std::vector<int>(pixels, pixels + images.pixels.numel())},
                            {"outputs", outputs}}
                 .dump());
}

void expect_same_in_onnxruntime(const TemporaryFolder& folder) {
  EXPECT_EQ(std::system(("node '" POEM_TESTS "/onnx/compare.mjs' '" + folder.path() + "'").c_str()), 0)
      << "'make test' installs what this test needs (or: make setup-tests)";
}

TEST(Onnx, EveryScoreIsThatOfTheDetector) {
  TemporaryFolder folder;
  for (const std::string& score : exportable_scores())
    write_case(detector_of(network("wideresnet", HeadKind::kLinear, 2), score), folder / score);
  expect_same_in_onnxruntime(folder);
}

TEST(Onnx, EveryNetworkIsThatOfTheDetector) {
  TemporaryFolder folder;
  for (const std::string& name : network_names())
    write_case(detector_of(network(name), "energy"), folder / name);
  write_case(detector_of(network("densenet", HeadKind::kProjection), "ssd"), folder / "projection");
  for (const char* score : {"msp", "gen", "mds"})
    write_case(detector_of(network("wideresnet", HeadKind::kDensity, 2), score),
               folder / (std::string("density-") + score));
  expect_same_in_onnxruntime(folder);
}

TEST(Onnx, SavedTwiceItGivesTheSameBytes) {
  EXPECT_EQ(onnx_model(detector_of(network("mlp"), "msp")), onnx_model(detector_of(network("mlp"), "msp")));
}

TEST(Onnx, RefusesScoresThatNeedGradients) {
  Detector detector = detector_of(network("mlp"), "msp");
  for (const char* name : {"odin", "mahalanobis"}) {
    detector.score = make_score(name);
    expect_error([&] { onnx_model(detector); }, {name, "gradients", "msp", "knn", "reject_energy"});
  }
}

TEST(Onnx, RefusesADetectorWithoutAThreshold) {
  Detector detector = detector_of(network("mlp"), "msp");
  detector.threshold = std::nullopt;
  expect_error([&] { onnx_model(detector); }, {"no threshold", "data.validation"});
}

// Scores of a caller's own: one that computes on numbers, and one with an operator that no rule translates.
class OnNumbers : public Score {
 public:
  at::Tensor operator()(const Batch& batch) const override {
    at::Tensor scores = batch.logits.amax(1).detach();
    for (int64_t i = 0; i < scores.numel(); ++i) scores.data_ptr<float>()[i] += 1;
    return scores;
  }
};

class Cosine : public Score {
 public:
  at::Tensor operator()(const Batch& batch) const override { return batch.logits.amax(1).cos(); }
};

TEST(Onnx, RefusesWhatLeavesNoRecord) {
  static const bool registered = [] {
    register_score(
        "on_numbers", [] { return std::make_unique<OnNumbers>(); }, kClasses);
    register_score(
        "cosine", [] { return std::make_unique<Cosine>(); }, kClasses);
    return true;
  }();
  ASSERT_TRUE(registered);
  Detector detector = detector_of(network("mlp"), "msp");
  detector.score = make_score("on_numbers");
  expect_error([&] { onnx_model(detector); }, {"on_numbers", "not recorded", "formula"});
  detector.score = make_score("cosine");
  expect_error([&] { onnx_model(detector); }, {"aten::cos", "no translation"});
}

// As many numbers as no model can have, all in the same place of memory.
class Large : public Score {
 public:
  at::Tensor operator()(const Batch& batch) const override {
    return batch.logits.amax(1) + numbers_.narrow(0, 0, 1);
  }

 private:
  const at::Tensor numbers_ = at::zeros({1}).expand({int64_t{1} << 30});
};

TEST(Onnx, RefusesModelsThatNoRuntimeReads) {
  static const bool registered = [] {
    register_score(
        "large", [] { return std::make_unique<Large>(); }, kClasses);
    return true;
  }();
  ASSERT_TRUE(registered);
  Detector detector = detector_of(network("mlp"), "msp");
  detector.score = make_score("large");
  expect_error([&] { onnx_model(detector); }, {"score 'large'", "4096 MiB", "2048 MiB", "another score"});
}

}  // namespace
}  // namespace poem
