#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <map>

#include "core/interrupts.h"
#include "expect_error.h"
#include "net/weights.h"
#include "poem/random.h"
#include "small_training.h"
#include "temporary_folder.h"
#include "train/finish.h"
#include "train/memory.h"
#include "train/network_setup.h"
#include "train/trainer.h"

namespace poem {
namespace {

const c10::Device kCpu(c10::kCPU);

Config frozen_training(const std::string& weights) {
  Config config = small_training();
  config.network.name = "densenet";
  config.network.growth = 4;
  config.weights = weights;
  config.train.freeze = Freeze::kBackbone;
  return config;
}

std::map<std::string, at::Tensor> tensors_of(const Network& network) {
  TensorFile file;
  store_weights(network, "", file);
  for (auto& [name, tensor] : file.tensors) tensor = tensor.detach().clone();
  return file.tensors;
}

// Weights with statistics that no batch has.
class FreezeTest : public testing::Test {
 protected:
  FreezeTest() : path_(folder_ / "weights.safetensors") {
    const at::NoGradGuard no_grad;
    const Config config = frozen_training("");
    const auto network =
        make_network(network_spec(config, *make_objective(config.objective), small_training_data().id), 77);
    for (const auto& [name, buffer] : network->buffers()) at::Tensor(buffer).add_(0.25);
    TensorFile file;
    store_weights(*network, "", file);
    write_safetensors(path_, file);
  }

  void expect_frozen(const Network& network) {
    const auto now = tensors_of(network), then = read_safetensors(path_).tensors;
    for (const auto& [name, tensor] : then) EXPECT_EQ(now.at(name).equal(tensor), !in_head(name)) << name;
  }

  TemporaryFolder folder_;
  const std::string path_;
};

TEST_F(FreezeTest, WeightsAndStatisticsKeepTheirBits) {
  for (const double average : {0.0, 0.6}) {
    Config config = frozen_training(path_);
    config.train.average = average;
    Trainer trainer(config, small_training_data(), kCpu);
    trainer.start_from(path_);
    while (!trainer.done()) trainer.run_epoch();
    expect_frozen(*trainer.network());
    expect_frozen(*trainer.detector_network());
  }
}

TEST_F(FreezeTest, WithoutItImportedWeightsAndStatisticsAreTrained) {
  Config config = frozen_training(path_);
  config.train.freeze = Freeze::kNothing;
  Trainer trainer(config, small_training_data(), kCpu);
  trainer.start_from(path_);
  for (const auto& [name, tensor] : read_safetensors(path_).tensors)
    EXPECT_TRUE(tensors_of(*trainer.network()).at(name).equal(tensor)) << name;
  trainer.run_epoch();
  for (const auto& [name, tensor] : read_safetensors(path_).tensors)
    EXPECT_FALSE(tensors_of(*trainer.network()).at(name).equal(tensor)) << name;
}

// Stopped after every batch: each trainer trains one batch, and a fresh one, whose file of weights is gone,
// takes over.
TEST_F(FreezeTest, ResumesToTheSameBits) {
  Config config = frozen_training(path_);
  config.train.average = 0.6;
  config.train.epochs = 1;
  Trainer whole(config, small_training_data(), kCpu);
  whole.start_from(path_);
  whole.run_epoch();
  TensorFile state;
  {
    Trainer first(config, small_training_data(), kCpu);
    first.start_from(path_);
    EXPECT_THROW(first.run_epoch([] { return true; }), Interrupted);
    first.store(state);
    write_safetensors(folder_ / "state", state);
  }
  Trainer resumed(config, small_training_data(), kCpu);
  resumed.load(read_safetensors(folder_ / "state"));
  resumed.run_epoch();
  const auto expected = tensors_of(*whole.detector_network()), got = tensors_of(*resumed.detector_network());
  for (const auto& [name, tensor] : expected) EXPECT_TRUE(got.at(name).equal(tensor)) << name;
  for (const auto& [name, tensor] : state.tensors) EXPECT_EQ(name.find("velocity.stem"), std::string::npos);
}

// In train mode a frozen network computes what it computes in eval mode, and only the head has gradients.
void expect_eval_mode_in_training(const NetworkSpec& spec) {
  const auto network = make_network(spec, 5);
  network->freeze_backbone();
  Stream stream(1, "pixels");
  at::Tensor images = at::empty({6, 3, 8, 8});
  for (int64_t i = 0; i < images.numel(); ++i)
    images.data_ptr<float>()[i] = static_cast<float>(stream.below(256));
  const auto before = tensors_of(*network);
  const int64_t m = network->feature_count();
  const at::Tensor features = network->features(images);
  network->logits(features).square().sum().backward();
  for (const auto& [name, tensor] : tensors_of(*network)) EXPECT_TRUE(tensor.equal(before.at(name))) << name;
  for (const auto& [name, parameter] : network->parameters())
    EXPECT_EQ(parameter.grad().defined(), in_head(name)) << spec.name << " " << name;
  network->train(false);
  EXPECT_TRUE(at::allclose(features.narrow(1, 0, m), network->features(images).narrow(1, 0, m), 1e-4, 1e-5))
      << spec.name;
  images.requires_grad_();  // as odin needs it
  network->features(images).sum().backward();
  EXPECT_GT(images.grad().abs().sum().item<double>(), 0) << spec.name;
}

TEST_F(FreezeTest, AFrozenBackboneIsInEvalMode) {
  NetworkSpec spec;
  spec.depth = 10;
  spec.growth = 4;
  spec.pixels = 64;
  spec.components = 2;
  for (const char* name : {"wideresnet", "resnet18_224", "mlp", "densenet"}) {
    spec.name = name;
    expect_eval_mode_in_training(spec);
  }
  for (const HeadKind head : {HeadKind::kProjection, HeadKind::kDensity}) {
    spec.head = head;
    expect_eval_mode_in_training(spec);
  }
}

// No gradients, so no layer's output needs to be kept.
TEST_F(FreezeTest, AStepTakesLessMemory) {
  const Config frozen = frozen_training(path_);
  Config free = frozen;
  free.train.freeze = Freeze::kNothing;
  const auto bytes = [&](const Config& config) {
    const auto network = training_network(
        config, network_spec(config, *make_objective(config.objective), small_training_data().id));
    return peak_bytes([&] {
      network->logits(network->features(at::zeros({8, 3, 32, 32}))).sum().backward();
    });
  };
  EXPECT_LT(3 * bytes(frozen), 2 * bytes(free));
}

}  // namespace
}  // namespace poem
