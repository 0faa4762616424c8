// The sums over pixels of a dense block: exact, so that the order in which thread blocks finish changes no
// bit.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cuda/dense_block.h"

namespace poem {
namespace {

struct Case {
  int64_t channels, layers, images, side;
};
// Few and many thread blocks, tiles that do not fill the last one, and both kernels of conv1: up to 256
// channels, and more.
const std::vector<Case> kCases = {
    {24, 2, 5, 8}, {24, 16, 64, 32}, {108, 16, 128, 16}, {150, 16, 128, 8}, {50, 3, 7, 20}};

struct Block {
  std::vector<cuda::LayerTensors> layers;
  cuda::NormTensors norm;
};

Block make_block(const Case& c) {
  at::manual_seed(1);
  const auto options = at::TensorOptions(at::kFloat).device(at::kCUDA);
  const auto norm = [&](int64_t channels) {
    return cuda::NormTensors{(1 + 0.2 * at::randn({channels}, options)).requires_grad_(),
                             (0.2 * at::randn({channels}, options)).requires_grad_(),
                             at::zeros({channels}, options), at::ones({channels}, options)};
  };
  const auto conv = [&](int64_t out, int64_t in, int64_t size) {
    const double deviation = std::sqrt(2.0 / static_cast<double>(in * size * size));
    return (deviation * at::randn({out, in, size, size}, options))
        .contiguous(at::MemoryFormat::ChannelsLast)
        .requires_grad_();
  };
  Block block;
  for (int64_t i = 0; i < c.layers; ++i) {
    const int64_t channels = c.channels + 12 * i;
    block.layers.push_back({norm(channels), conv(48, channels, 1), norm(48), conv(12, 48, 3)});
  }
  block.norm = norm(c.channels + 12 * c.layers);
  return block;
}

using Named = std::vector<std::pair<std::string, at::Tensor>>;

// Output, running statistics and all gradients of one pass, the output's gradient being `scale` times a
// random one. `deterministic` as train.deterministic sets it.
Named pass(const Case& c, bool deterministic, double scale = 1e-3) {
  at::globalContext().setDeterministicCuDNN(deterministic);
  const Block block = make_block(c);
  const auto x = at::randn({c.images, c.channels, c.side, c.side}, at::TensorOptions(at::kCUDA))
                     .to(at::kBFloat16)
                     .contiguous(at::MemoryFormat::ChannelsLast)
                     .requires_grad_();
  const at::Tensor y = cuda::dense_block(block.layers, block.norm, x, {2, 2}, /*training=*/true);
  y.backward((scale * at::randn(y.sizes(), at::TensorOptions(at::kCUDA))).to(y.scalar_type()));
  at::globalContext().setDeterministicCuDNN(false);
  Named all = {{"y", y.detach()}, {"x", x.grad()}};
  const auto add = [&](const std::string& name, const cuda::NormTensors& norm) {
    all.insert(all.end(), {{name + ".weight", norm.weight.grad()},
                           {name + ".bias", norm.bias.grad()},
                           {name + ".mean", norm.running_mean},
                           {name + ".variance", norm.running_variance}});
  };
  for (size_t i = 0; i < block.layers.size(); ++i) {
    const cuda::LayerTensors& layer = block.layers[i];
    add("norm1 of layer " + std::to_string(i), layer.norm1);
    add("norm2 of layer " + std::to_string(i), layer.norm2);
    all.emplace_back("conv1 of layer " + std::to_string(i), layer.conv1.grad());
    all.emplace_back("conv2 of layer " + std::to_string(i), layer.conv2.grad());
  }
  add("norm", block.norm);
  return all;
}

bool is_conv(const std::string& name) { return name.rfind("conv", 0) == 0; }

TEST(DenseSums, RepeatTheirBits) {
  for (const Case& c : kCases) {
    for (const double scale : {1e-6, 1e-3, 0.1}) {
      SCOPED_TRACE(std::to_string(c.channels) + " channels, scale " + std::to_string(scale));
      const Named first = pass(c, true, scale);
      for (int i = 0; i < 5; ++i) {
        const Named again = pass(c, true, scale);
        for (size_t k = 0; k < first.size(); ++k)
          EXPECT_TRUE(again[k].second.equal(first[k].second)) << first[k].first;
      }
    }
  }
}

// Without train.deterministic only the gradients of the convolutions' weights are summed in another way: the
// same up to float32's rounding, and to that of exact sums' smallest step.
TEST(DenseSums, AreTheSameWithoutDeterminism) {
  for (const Case& c : kCases) {
    for (const double scale : {1e-6, 1e-3, 0.1}) {
      SCOPED_TRACE(std::to_string(c.channels) + " channels, scale " + std::to_string(scale));
      const Named exact = pass(c, true, scale), fast = pass(c, false, scale);
      for (size_t k = 0; k < exact.size(); ++k) {
        const auto& [name, expected] = exact[k];
        const at::Tensor& got = fast[k].second;
        EXPECT_GT(expected.abs().max().item<double>(), 0) << name;
        if (!is_conv(name)) {
          EXPECT_TRUE(got.equal(expected)) << name;
        } else {
          const double error = (got - expected).norm().item<double>(),
                       step = 1e-8 * std::sqrt(static_cast<double>(got.numel()));
          EXPECT_LT(error, 1e-5 * expected.norm().item<double>() + step) << name;
        }
      }
    }
  }
}

TEST(DenseSums, OfWhatIsNotFiniteAreNotFinite) {
  for (const double scale : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    for (const auto& [name, gradient] : pass(kCases[0], true, scale)) {
      if (is_conv(name)) {
        EXPECT_FALSE(at::isfinite(gradient).all().item<bool>()) << name;
      }
    }
  }
}

}  // namespace
}  // namespace poem
