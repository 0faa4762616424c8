#include "train/average.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/interrupts.h"
#include "expect_error.h"
#include "poem/random.h"
#include "small_training.h"
#include "temporary_folder.h"
#include "train/finish.h"
#include "train/trainer.h"

namespace poem {
namespace {

const c10::Device kCpu(c10::kCPU);

NetworkSpec small_network() {
  NetworkSpec spec;
  spec.name = "wideresnet";
  spec.depth = 10;
  return spec;
}

Config averaging() {
  Config config = small_training();
  config.train.average = 0.6;  // the warm-up is over after 13 steps
  return config;
}

// All parameters in a row, in float64.
at::Tensor flat(const Network& network) {
  std::vector<at::Tensor> parts;
  for (const auto& [name, parameter] : network.parameters())
    parts.push_back(parameter.detach().to(at::kDouble).flatten());
  return at::cat(parts);
}

// Σ of all weights so far, each with its share in the average: (1 − d_t) Π_{s > t} d_s, the first with the
// product of all.
at::Tensor closed_form(const std::vector<at::Tensor>& weights, double decay) {
  at::Tensor sum = at::zeros_like(weights[0]);
  const auto factor = [&](size_t t) { return std::min(decay, (1.0 + t) / (10.0 + t)); };
  for (size_t t = 0; t < weights.size(); ++t) {
    double share = t == 0 ? 1 : 1 - factor(t - 1);
    for (size_t later = t; later + 1 < weights.size(); ++later) share *= factor(later);
    sum += share * weights[t];
  }
  return sum;
}

TensorFile through_a_file(const Trainer& trainer) {
  TemporaryFolder folder;
  TensorFile file;
  trainer.store(file);
  write_safetensors(folder / "state", file);
  return read_safetensors(folder / "state");
}

void expect_same_bits(const Network::Named& a, const Network::Named& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].second.equal(b[i].second)) << a[i].first;
}

TEST(Average, HasAClosedForm) {
  const auto network = make_network(small_network(), 5);
  constexpr double kDecay = 0.3;  // warm-up: 1/10, 2/11, 3/12, then 0.3
  Average average(*network, kDecay);
  std::vector<at::Tensor> weights = {flat(*network)};
  for (uint64_t step = 0; step < 7; ++step) {
    const at::NoGradGuard no_grad;
    Stream stream(1, "steps", step);
    for (auto& [name, parameter] : network->parameters())
      at::Tensor(parameter).mul_(stream.normal()).add_(stream.normal());
    average.update();
    weights.push_back(flat(*network));
    EXPECT_TRUE(at::allclose(flat(*average.network()), closed_form(weights, kDecay), 1e-5, 1e-6)) << step;
  }
  average.restart();
  EXPECT_TRUE(flat(*average.network()).equal(flat(*network)));
  const at::NoGradGuard no_grad;
  at::Tensor(network->parameters()[0].second).add_(1);
  average.update();  // at 1/10 again
  EXPECT_TRUE(
      at::allclose(flat(*average.network()), 0.1 * weights.back() + 0.9 * flat(*network), 1e-5, 1e-6));
}

// The first BatchNorm sees what the stem makes of the normalised pixels.
void expect_first_statistics(const Network& network, const std::vector<at::Tensor>& batches) {
  const at::NoGradGuard no_grad;
  const auto& spec = network.spec();
  const at::Tensor mean = at::tensor(spec.mean, at::kDouble).view({1, 3, 1, 1}),
                   std = at::tensor(spec.std, at::kDouble).view({1, 3, 1, 1});
  at::Tensor means = at::zeros({16}, at::kDouble), variances = at::zeros({16}, at::kDouble);
  ASSERT_EQ(network.parameters()[0].first, "stem.weight");
  const at::Tensor stem = network.parameters()[0].second.to(at::kDouble);
  for (const at::Tensor& images : batches) {
    const at::Tensor x = at::conv2d((images.to(at::kDouble) - mean) / std, stem, {}, 1, 1);
    means += x.mean({0, 2, 3}) / static_cast<double>(batches.size());
    variances += x.var({0, 2, 3}, /*unbiased=*/true) / static_cast<double>(batches.size());
  }
  const auto buffers = network.buffers();
  EXPECT_TRUE(at::allclose(buffers[0].second.to(at::kDouble), means, 1e-4, 1e-5)) << buffers[0].first;
  // LibTorch sums squares in float32.
  EXPECT_TRUE(at::allclose(buffers[1].second.to(at::kDouble), variances, 1e-3, 1e-5)) << buffers[1].first;
}

TEST(TakeBatchNorm, GivesTheMeanOfWhatBatchesHave) {
  const auto network = make_network(small_network(), 5);
  std::vector<at::Tensor> batches;
  at::manual_seed(1);
  for (int i = 0; i < 3; ++i) batches.push_back(at::randint(0, 60 + 60 * i, {4 + i, 3, 8, 8}, at::kByte));
  take_batch_norm(*network, 3, [&](int64_t i) { return batches[i]; });
  expect_first_statistics(*network, batches);

  // Of all layers: a batch moves fresh statistics r to 0.9 r + 0.1 s.
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> expected;
  for (const at::Tensor& images : batches) {
    const auto other = make_network(small_network(), 5);
    std::vector<at::Tensor> before;
    for (const auto& [name, buffer] : other->buffers()) before.push_back(buffer.clone());
    other->features(images);
    for (size_t i = 0; i < before.size(); ++i) {
      const at::Tensor s = (other->buffers()[i].second - 0.9 * before[i]) / 0.1;
      if (expected.size() <= i) expected.push_back(at::zeros_like(s));
      expected[i] += s / 3;
    }
  }
  const auto buffers = network->buffers();
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(at::allclose(buffers[i].second, expected[i], 1e-3, 1e-4)) << buffers[i].first;
}

TEST(TakeBatchNorm, LeavesOtherBuffersAlone) {
  NetworkSpec spec = small_network();
  spec.head = HeadKind::kDensity;
  spec.pixels = 64;
  spec.components = 2;
  const auto network = make_network(spec, 5);
  for (auto& [name, buffer] : network->buffers()) {
    const at::NoGradGuard no_grad;
    if (name.find("density.") == 0) at::Tensor(buffer).fill_(0.5);
  }
  take_batch_norm(*network, 2, [&](int64_t) { return at::randint(0, 255, {4, 3, 8, 8}, at::kByte); });
  for (const auto& [name, buffer] : network->buffers()) {
    if (name.find("density.") != 0) continue;
    EXPECT_TRUE(buffer.eq(0.5).all().item<bool>()) << name;
  }
}

// Stopped after every batch: each trainer trains one batch, and a fresh one takes over from the file.
TEST(Average, FollowsTheWeightsOfEveryStepAcrossResumes) {
  const Config config = averaging();
  Trainer whole(config, small_training_data(), kCpu);
  std::vector<at::Tensor> weights = {flat(*whole.network())};
  while (!whole.done()) whole.run_epoch();

  std::optional<TensorFile> file;
  for (int64_t epoch = 0; epoch < config.train.epochs;) {
    Trainer stopped(config, small_training_data(), kCpu);
    if (file) stopped.load(*file);
    try {
      stopped.run_epoch([] { return true; });
    } catch (const Interrupted&) {
    }
    weights.push_back(flat(*stopped.network()));
    epoch = stopped.epoch();
    file = through_a_file(stopped);
  }
  ASSERT_EQ(weights.size(), 1u + 3 * 2);
  EXPECT_TRUE(
      at::allclose(flat(*whole.detector_network()), closed_form(weights, config.train.average), 1e-4, 1e-6));

  Trainer resumed(config, small_training_data(), kCpu);
  resumed.load(*file);
  const auto a = whole.detector_network(), b = resumed.detector_network();
  expect_same_bits(a->parameters(), b->parameters());
  expect_same_bits(a->buffers(), b->buffers());
}

TEST(Average, TheDetectorHasItAndStatisticsOfItsOwn) {
  Config config = averaging();
  config.train.batch = config.train.outlier_batch = 100;  // one step per epoch, with all images
  const TrainingData& data = small_training_data();
  Trainer trainer(config, data, kCpu);
  while (!trainer.done()) trainer.run_epoch();
  const Detector detector = make_detector(config, data, trainer);
  EXPECT_FALSE(flat(*detector.network).equal(flat(*trainer.network())));

  const std::vector<Crop> id = id_crops(data, config.seed, config.train.epochs - 1), &mined = trainer.mined();
  const at::Tensor images = at::cat({cut(data.id, id.data(), id.size(), data.id_cut),
                                     cut(data.outliers, mined.data(), mined.size(), data.outlier_cut)});
  expect_first_statistics(*detector.network, {images});
}

TEST(Average, ChangesNothingInTheTraining) {
  Config config = averaging();
  Trainer with(config, small_training_data(), kCpu);
  config.train.average = 0;
  Trainer without(config, small_training_data(), kCpu);
  EXPECT_EQ(without.detector_network(), without.network());
  while (!with.done()) {
    with.run_epoch();
    without.run_epoch();
    with.detector_network();  // an evaluation between epochs
  }
  EXPECT_EQ(without.detector_network(), without.network());
  const TensorFile a = through_a_file(with), b = through_a_file(without);
  size_t averages = 0;
  for (const auto& [name, tensor] : a.tensors) {
    if (name == "seconds") continue;
    if (name.rfind("average", 0) == 0) {
      EXPECT_EQ(b.tensors.count(name), 0u);
      ++averages;
    } else {
      EXPECT_TRUE(tensor.equal(b.tensor(name))) << name;
    }
  }
  EXPECT_EQ(averages, 1 + with.network()->parameters().size());
}

TEST(Average, ADamagedCountIsAnError) {
  Trainer trainer(averaging(), small_training_data(), kCpu);
  TensorFile file = through_a_file(trainer);
  file.tensors["average_updates"].fill_(-10);
  expect_error([&] { trainer.load(file); }, {"average_updates", "-10", "train again"});
  file.tensors.erase("average_updates");
  expect_error([&] { trainer.load(file); }, {"average_updates"});
}

}  // namespace
}  // namespace poem
