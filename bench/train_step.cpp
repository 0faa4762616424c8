// Train steps on 128 images, one for each line on standard input; prints the seconds of each. `train_step
// ours` is DenseNet-BC-100-12 under poem's runtime settings with 2 threads, `train_step baseline` the same
// network written with torch::nn and run by LibTorch as it comes; `train_step demo` is the demo's network
// under poem's settings on all cores. Allocator and threads are set up for a whole process, so the sides of a
// comparison are processes (stepper.h drives them).
//
//   yes | head -3 | train_step ours
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <chrono>
#include <functional>
#include <iostream>

#include "poem/network.h"
#include "poem/runtime.h"

namespace {

namespace nn = torch::nn;
constexpr int kThreads = 2;
constexpr int64_t kGrowth = 12, kLayers = 16, kBatch = 128;

nn::Conv2d conv(int64_t in, int64_t out, int64_t kernel) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, kernel).padding(kernel / 2).bias(false));
}

struct Bottleneck : nn::Module {
  explicit Bottleneck(int64_t in)
      : norm1(register_module("norm1", nn::BatchNorm2d(in))),
        conv1(register_module("conv1", conv(in, 4 * kGrowth, 1))),
        norm2(register_module("norm2", nn::BatchNorm2d(4 * kGrowth))),
        conv2(register_module("conv2", conv(4 * kGrowth, kGrowth, 3))) {}

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = conv1->forward(norm1->forward(x).relu_());
    return at::cat({x, conv2->forward(norm2->forward(y).relu_())}, 1);
  }

  nn::BatchNorm2d norm1;
  nn::Conv2d conv1;
  nn::BatchNorm2d norm2;
  nn::Conv2d conv2;
};

struct Baseline : nn::Module {
  Baseline() {
    int64_t channels = 2 * kGrowth;
    stem = register_module("stem", conv(3, channels, 3));
    for (int block = 0; block < 3; ++block) {
      for (int64_t layer = 0; layer < kLayers; ++layer, channels += kGrowth)
        layers.push_back(
            register_module(name("layer", layers.size()), std::make_shared<Bottleneck>(channels)));
      norms.push_back(register_module(name("norm", block), nn::BatchNorm2d(channels)));
      if (block == 2) break;
      convs.push_back(register_module(name("conv", block), conv(channels, channels / 2, 1)));
      channels /= 2;
    }
    linear = register_module("linear", nn::Linear(channels, 10));
  }

  static std::string name(const char* kind, size_t i) { return kind + std::to_string(i); }

  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = stem->forward(images);
    for (size_t i = 0; i < layers.size(); ++i) {
      x = layers[i]->forward(x);
      if ((i + 1) % kLayers != 0) continue;
      const size_t block = i / kLayers;
      x = norms[block]->forward(x).relu_();
      if (block < 2) x = at::avg_pool2d(convs[block]->forward(x), 2);
    }
    return linear->forward(x.mean({2, 3}));
  }

  nn::Conv2d stem = nullptr;
  std::vector<std::shared_ptr<Bottleneck>> layers;
  std::vector<nn::BatchNorm2d> norms;
  std::vector<nn::Conv2d> convs;
  nn::Linear linear = nullptr;
};

void serve(const std::function<at::Tensor(const at::Tensor&)>& logits, std::vector<at::Tensor> parameters) {
  const at::Tensor images = at::randint(0, 256, {kBatch, 3, 32, 32}, at::kByte);
  const at::Tensor labels = at::randint(0, 10, {kBatch}, at::kLong);
  torch::optim::SGD sgd(std::move(parameters),
                        torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(1e-4));
  for (std::string line; std::getline(std::cin, line);) {
    const auto start = std::chrono::steady_clock::now();
    sgd.zero_grad();
    at::cross_entropy_loss(logits(images), labels).backward();
    sgd.step();
    std::cout << std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() << std::endl;
  }
}

void serve_ours(const poem::NetworkSpec& spec, int threads) {
  poem::set_up_runtime(threads);
  const auto network = poem::make_network(spec, 1);
  std::vector<at::Tensor> parameters;
  for (const auto& [name, tensor] : network->parameters()) parameters.push_back(tensor);
  serve([&](const at::Tensor& images) { return network->logits(network->features(images)); }, parameters);
}

void serve_baseline() {
  at::set_num_threads(kThreads);
  Baseline network;
  const at::Tensor mean = at::tensor({125.3, 123.0, 113.9}, at::kFloat).view({3, 1, 1});
  const at::Tensor std = at::tensor({63.0, 62.1, 66.7}, at::kFloat).view({3, 1, 1});
  serve([&](const at::Tensor& images) { return network.forward((images - mean) / std); },
        network.parameters());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string side = argc == 2 ? argv[1] : "";
  if (side == "ours") {
    serve_ours({}, kThreads);
  } else if (side == "demo") {
    poem::NetworkSpec spec;
    spec.name = "wideresnet";
    spec.depth = 10;
    serve_ours(spec, 0);
  } else if (side == "baseline") {
    serve_baseline();
  } else {
    std::cerr << "usage: train_step ours|baseline|demo, a line on standard input for each step\n";
    return 2;
  }
}
