// Training on the GPU: as on the CPU, with and without a recorded step, in bfloat16, and after a resume.
#include "train/trainer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/interrupts.h"
#include "expect_error.h"
#include "mining/top_n.h"
#include "net/weights.h"
#include "temporary_folder.h"
#include "train/gpu_memory.h"
#include "train/replay.h"

namespace poem {
namespace {

const at::Device kGpu(at::kCUDA, 0), kCpu(at::kCPU);

Config config(Precision precision) {
  Config c;
  c.data.train = "world:train:640";
  c.data.outliers = {"world:outliers:2000"};
  c.data.validation = 0.05;
  c.network.depth = 22;
  c.mining.pool = 1500;
  c.train.epochs = 2;
  c.train.learning_rate = 0.01;
  c.train.precision = precision;
  c.queue.features = QueueFeatures::kFresh;
  return c;
}

const TrainingData& data() {
  static const TrainingData images = load_training_data(config(Precision::kAuto));
  return images;
}

struct Training {
  Training(const Config& c, at::Device device) : trainer(c, data(), device) {
    while (!trainer.done()) reports.push_back(trainer.run_epoch());
  }
  Trainer trainer;
  std::vector<EpochReport> reports;
};

double relative(double a, double b) { return std::abs(a - b) / std::abs(b); }

// TF32 rounds products to ten bits; sums of losses over 20 steps agree better than that.
TEST(GpuTrainer, Float32AgreesWithTheCpu) {
  const Training gpu(config(Precision::kFloat32), kGpu), cpu(config(Precision::kFloat32), kCpu);
  EXPECT_LT(relative(gpu.reports[0].loss, cpu.reports[0].loss), 0.005);
  EXPECT_LT(relative(*gpu.reports[0].mining->pool_abs_logit, *cpu.reports[0].mining->pool_abs_logit), 0.005);
  EXPECT_EQ(gpu.reports[0].mining->distinct_images > 0, true);
}

TEST(GpuTrainer, Bf16TrainsLikeFloat32) {
  const Training bf16(config(Precision::kBf16), kGpu), float32(config(Precision::kFloat32), kGpu);
  EXPECT_LT(relative(bf16.reports[0].loss, float32.reports[0].loss), 0.03);
  EXPECT_LT(relative(bf16.reports[1].loss, float32.reports[1].loss), 0.1);
}

TEST(GpuTrainer, OtherNetworksTrainInBf16Too) {
  Config c = config(Precision::kBf16);
  c.network.name = "wideresnet";
  c.network.depth = 10;
  Config same = c;
  same.train.precision = Precision::kFloat32;
  const Training bf16(c, kGpu), float32(same, kGpu);
  EXPECT_LT(relative(bf16.reports[0].loss, float32.reports[0].loss), 0.03);
}

// Also in the recorded step, and with the kernels of DenseNet.
TEST(GpuTrainer, AFrozenBackboneKeepsItsBits) {
  for (const Precision precision : {Precision::kBf16, Precision::kFloat32}) {
    Config c = config(precision);
    c.weights = "weights.safetensors";  // not read here: drawn weights do as well
    c.train.freeze = Freeze::kBackbone;
    c.train.average = 0.9;
    Trainer trainer(c, data(), kGpu);
    TensorFile before;
    store_weights(*trainer.network(), "", before);
    for (auto& [name, tensor] : before.tensors) tensor = tensor.detach().clone();
    while (!trainer.done()) trainer.run_epoch();
    for (const auto& network : {trainer.network(), trainer.detector_network()}) {
      TensorFile after;
      store_weights(*network, "", after);
      for (const auto& [name, tensor] : before.tensors)
        EXPECT_EQ(after.tensors.at(name).equal(tensor), !in_head(name)) << name;
    }
  }
}

TEST(GpuTrainer, ResumesAfterAnEpoch) {
  const Config c = config(Precision::kAuto);
  TemporaryFolder folder;
  Trainer whole(c, data(), kGpu);
  whole.run_epoch();
  TensorFile file;
  whole.store(file);
  write_safetensors(folder / "state", file);
  const double expected = whole.run_epoch().loss;
  Trainer second(c, data(), kGpu);
  second.load(read_safetensors(folder / "state"));
  ASSERT_EQ(second.epoch(), 1);
  const double loss = second.run_epoch().loss;
  ASSERT_TRUE(second.done());
  EXPECT_LT(relative(loss, expected), 0.05);  // cuDNN and atomic sums add in no fixed order
}

void expect_same_bits(const Network& a, const Network& b) {
  const auto expect_equal = [](const Network::Named& x, const Network::Named& y) {
    for (size_t i = 0; i < x.size(); ++i) EXPECT_TRUE(x[i].second.equal(y[i].second)) << x[i].first;
  };
  expect_equal(a.parameters(), b.parameters());
  expect_equal(a.buffers(), b.buffers());
}

void expect_same_bits(const Trainer& a, const Trainer& b) {
  expect_same_bits(*a.network(), *b.network());
  ASSERT_EQ(a.mined().size(), b.mined().size());
  for (size_t i = 0; i < a.mined().size(); ++i) EXPECT_EQ(a.mined()[i].seed, b.mined()[i].seed);
}

class Repeated : public testing::TestWithParam<std::pair<const char*, Precision>> {};

TEST_P(Repeated, GivesTheSameBits) {
  Config c = config(GetParam().second);
  c.network.name = GetParam().first;
  c.train.deterministic = true;
  const Training first(c, kGpu), second(c, kGpu);
  expect_same_bits(first.trainer, second.trainer);
  at::globalContext().setDeterministicCuDNN(false);
}
INSTANTIATE_TEST_SUITE_P(Networks, Repeated,
                         testing::Values(std::pair{"densenet", Precision::kBf16},
                                         std::pair{"densenet", Precision::kFloat32},
                                         std::pair{"wideresnet", Precision::kBf16},
                                         std::pair{"wideresnet", Precision::kFloat32},
                                         std::pair{"resnet18", Precision::kBf16}));

// What is learned without gradients, too, and the averaged network with its statistics.
TEST(GpuTrainer, DensitiesAndAveragesRepeatTheirBits) {
  Config c = config(Precision::kBf16);
  c.objective.name = "ccu";
  c.network.name = "wideresnet";
  c.network.depth = 10;
  c.train.deterministic = true;
  c.train.average = 0.9;
  const Training first(c, kGpu), second(c, kGpu);
  expect_same_bits(first.trainer, second.trainer);
  expect_same_bits(*first.trainer.detector_network(), *second.trainer.detector_network());
  at::globalContext().setDeterministicCuDNN(false);
}

// The whole training replays a recorded step where the resumed one runs it as it is.
TEST(GpuTrainer, DeterministicTrainingsResumeToTheSameBits) {
  Config c = config(Precision::kBf16);
  c.train.deterministic = true;
  c.train.average = 0.9;
  const Training whole(c, kGpu);
  Trainer stopped(c, data(), kGpu);
  int batches = 0;
  EXPECT_THROW(stopped.run_epoch([&] { return ++batches == 6; }), Interrupted);
  TemporaryFolder folder;
  TensorFile file;
  stopped.store(file);
  write_safetensors(folder / "state", file);
  Trainer resumed(c, data(), kGpu);
  resumed.load(read_safetensors(folder / "state"));
  while (!resumed.done()) resumed.run_epoch();
  expect_same_bits(whole.trainer, resumed);
  expect_same_bits(*whole.trainer.detector_network(), *resumed.detector_network());
  at::globalContext().setDeterministicCuDNN(false);
}

// Steps that warm up, the recorded one, its replays, and the smaller batch at the end of an epoch.
TEST(GpuTrainer, TheAverageFollowsTheWeightsOfEveryStep) {
  Config c = config(Precision::kBf16);
  c.train.average = 0.6;
  Trainer trainer(c, data(), kGpu);
  const auto weights = [](const Network& network) {
    std::vector<at::Tensor> parts;
    for (const auto& [name, parameter] : network.parameters())
      parts.push_back(parameter.detach().cpu().to(at::kDouble).flatten());
    return at::cat(parts);
  };
  at::Tensor expected = weights(*trainer.network());
  int step = 0;
  while (!trainer.done()) {
    trainer.run_epoch([&] {
      const double d = std::min(0.6, (1.0 + step) / (10.0 + step));
      expected = d * expected + (1 - d) * weights(*trainer.network());
      ++step;
      return false;
    });
  }
  EXPECT_EQ(step, 2 * 10);
  const at::Tensor averaged = weights(*trainer.detector_network());
  EXPECT_TRUE(at::allclose(averaged, expected, 1e-4, 1e-6));
  EXPECT_FALSE(at::allclose(averaged, weights(*trainer.network()), 1e-4, 1e-6));
}

TEST(GpuTrainer, StreamedImagesTrainTheSame) {
  Config c = config(Precision::kBf16);
  c.train.deterministic = true;
  const Training resident(c, kGpu);
  c.train.images = ImagePlace::kStream;
  const Training streamed(c, kGpu);
  expect_same_bits(resident.trainer, streamed.trainer);
  at::globalContext().setDeterministicCuDNN(false);
}

TEST(GpuMemory, IsCheckedBeforeAnyImageIsRead) {
  Config c = config(Precision::kAuto);
  c.network.depth = 100;
  check_gpu_memory(c, kGpu);
  c.train.batch = 1000000;
  expect_error([&] { check_gpu_memory(c, kGpu); }, {"1000064 images", "MiB", "train.batch"});
}

// What is trained is a vector towards a target that comes with each call, with a rate that changes.
TEST(Replay, ARecordedStepIsTheStep) {
  const auto options = at::TensorOptions(at::kFloat).device(kGpu);
  at::Tensor x = at::zeros({4}, options), rate = at::zeros({}, options);
  Replay step([&](const std::vector<at::Tensor>& in) { x.add_(rate * (in[0].sum(0) - x)); }, kGpu);
  at::Tensor expected = at::zeros({4});
  for (int i = 0; i < 12; ++i) {
    const int64_t rows = i == 7 ? 2 : 3;  // one batch is smaller
    const at::Tensor target = at::arange(4 * rows, at::kFloat).view({rows, 4}) + i;
    rate.fill_(0.1 * i);
    step({target.to(kGpu)});
    expected += static_cast<float>(0.1 * i) * (target.sum(0) - expected);
  }
  EXPECT_TRUE(at::allclose(x.cpu(), expected, 1e-5));
}

TEST(Precision, Bf16AndFloat32MineTheSame) {
  Config c = config(Precision::kFloat32);
  c.train.epochs = 1;
  Training training(c, kGpu);
  Network& network = *training.trainer.network();
  const at::NoGradGuard no_grad;
  network.train(false);
  std::vector<Crop> crops;
  for (int64_t i = 0; i < 2000; ++i) crops.push_back({i, static_cast<uint64_t>(i)});
  const at::Tensor images = cut(data().outliers, crops.data(), 2000, data().outlier_cut).to(kGpu);
  at::manual_seed(3);
  const at::Tensor w = at::randn({network.feature_count()}).to(kGpu);
  const auto best = [&](bool bf16) {
    network.use_bf16(bf16);
    const at::Tensor scores = (-network.features(images).mv(w).abs()).cpu();
    TopN top(250);
    top.offer(scores.data_ptr<float>(), 2000, 0);
    return top.take();
  };
  const auto a = best(true), b = best(false);
  std::vector<int64_t> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  EXPECT_GT(both.size(), 225) << "of 250";
  std::printf("mined by bf16 and by float32: %zu of 250\n", both.size());
}

}  // namespace
}  // namespace poem
