// DenseNet's own kernels (bfloat16, GPU) against LibTorch in float32 on the CPU.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "poem/network.h"

namespace poem {
namespace {

struct Case {
  int64_t depth, images, height, width;
};

// A network whose weights and statistics are not the plain ones that a new one has; the same on every device.
std::unique_ptr<Network> make(int64_t depth, const at::Device& device) {
  NetworkSpec spec;
  spec.depth = depth;
  auto network = make_network(spec, 7);
  const at::NoGradGuard no_grad;
  at::manual_seed(5);
  for (const auto& [name, tensor] : network->parameters()) {
    if (name.find("norm") != std::string::npos) tensor.add_(0.2 * at::randn_like(tensor));
  }
  for (const auto& [name, tensor] : network->buffers()) tensor.add_(0.1 * at::rand_like(tensor));
  network->to(device);
  network->use_bf16(device.is_cuda());
  return network;
}

at::Tensor images(const Case& c) {
  at::manual_seed(6);
  return at::randint(0, 256, {c.images, 3, c.height, c.width}, at::kByte);
}

double error(const at::Tensor& got, const at::Tensor& expected) {
  const at::Tensor a = got.detach().cpu().to(at::kDouble), b = expected.detach().cpu().to(at::kDouble);
  return ((a - b).norm() / (b.norm() + 1e-30)).item<double>();
}

class Dense : public testing::TestWithParam<Case> {};

TEST_P(Dense, InfersTheSameFeatures) {
  const auto cpu = make(GetParam().depth, at::kCPU), gpu = make(GetParam().depth, at::kCUDA);
  const at::NoGradGuard no_grad;
  cpu->train(false);
  gpu->train(false);
  EXPECT_LT(error(gpu->features(images(GetParam()).cuda()), cpu->features(images(GetParam()))), 0.01);
}

TEST_P(Dense, TrainsWithTheSameFeaturesAndStatistics) {
  const auto cpu = make(GetParam().depth, at::kCPU), gpu = make(GetParam().depth, at::kCUDA);
  const at::NoGradGuard no_grad;
  EXPECT_LT(error(gpu->features(images(GetParam()).cuda()), cpu->features(images(GetParam()))), 0.02);
  const auto expected = cpu->buffers(), got = gpu->buffers();
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_LT(error(got[i].second, expected[i].second), 0.01) << got[i].first;
}

INSTANTIATE_TEST_SUITE_P(Shapes, Dense,
                         testing::Values(Case{10, 40, 8, 8}, Case{10, 5, 32, 32}, Case{16, 24, 12, 20},
                                         Case{22, 130, 16, 16}, Case{16, 2, 64, 64}, Case{40, 9, 32, 32}));

// How far the bfloat16 gradients are from those in float32, mean over the parameters.
double gradient_error(const Case& c) {
  const auto cpu = make(c.depth, at::kCPU), gpu = make(c.depth, at::kCUDA);
  at::manual_seed(8);
  const at::Tensor direction = at::randn({c.images, cpu->feature_count()});
  (cpu->features(images(c)) * direction).sum().backward();
  (gpu->features(images(c).cuda()) * direction.cuda()).sum().backward();
  const auto expected = cpu->parameters(), got = gpu->parameters();
  double total = 0;
  int64_t count = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const auto& [name, parameter] = got[i];
    if (name.rfind("linear", 0) == 0) continue;  // no logits, no gradient
    EXPECT_TRUE(parameter.grad().defined()) << name;
    total += error(parameter.grad(), expected[i].second.grad());
    ++count;
  }
  return total / static_cast<double>(count);
}

// Rounding to bfloat16 turns some ReLUs on or off, so gradients are off by a few per cent a layer, whoever
// computes them. LibTorch's own bfloat16 is the yardstick: it takes images whose sides our kernels do not.
TEST(DenseGradients, AreAsCloseToFloat32AsLibtorchsBf16) {
  const std::pair<Case, Case> pairs[] = {{{10, 5, 32, 32}, {10, 5, 34, 30}},
                                         {{16, 24, 12, 20}, {16, 26, 10, 22}},
                                         {{22, 130, 16, 16}, {22, 130, 18, 14}},
                                         {{40, 9, 32, 32}, {40, 9, 34, 30}},
                                         {{100, 16, 32, 32}, {100, 16, 34, 30}}};
  for (const auto& [ours, theirs] : pairs) {
    const double a = gradient_error(ours), b = gradient_error(theirs);
    std::printf("depth %ld: gradients off by %.3f, LibTorch's by %.3f\n", static_cast<long>(ours.depth), a,
                b);
    EXPECT_LT(a, 1.15 * b) << "depth " << ours.depth;
  }
}

}  // namespace
}  // namespace poem
