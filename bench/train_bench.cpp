// The demo network's train step: what poem adds to LibTorch's forward, backward and SGD, and what
// augmentation costs.
#include <ATen/ATen.h>
#include <torch/optim/sgd.h>

#include "compare.h"
#include "poem/read.h"
#include "train/average.h"
#include "train/trainer.h"

namespace poem::bench {
namespace {

constexpr int64_t kBatches = 10;

Config demo_config() {
  Config config;
  config.data.validation = 0;
  config.network.name = "wideresnet";
  config.network.depth = 10;
  config.mining.miner = "random";
  config.mining.pool = kBatches * config.train.outlier_batch;
  config.train.epochs = 1;
  config.data.train = "world:train:" + std::to_string(kBatches * config.train.batch);
  config.data.outliers = {"world:outliers:" + std::to_string(kBatches * config.train.outlier_batch)};
  return config;
}

NetworkSpec demo_network(const Config& config) {
  NetworkSpec spec = config.network;
  spec.classes = 8;
  return spec;
}

// The same network, loss and batches already cut, as anyone would write it.
class BareLoop {
 public:
  BareLoop(const Config& config, const TrainingData& data)
      : network_(make_network(demo_network(config), 0)), objective_(make_objective(config.objective)) {
    const auto id = id_crops(data, 0, 0);
    std::vector<at::Tensor> parameters;
    for (const auto& [name, tensor] : network_->parameters()) parameters.push_back(tensor);
    sgd_ = std::make_unique<torch::optim::SGD>(
        parameters, torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(1e-4).nesterov(true));
    for (int64_t i = 0; i < kBatches; ++i) {
      const Crop* crops = &id[i * config.train.batch];
      images_.push_back(at::cat({cut(data.id, crops, config.train.batch, data.id_cut),
                                 cut(data.outliers, crops, config.train.outlier_batch, data.outlier_cut)}));
      labels_.push_back(data.id.labels.narrow(0, i * config.train.batch, config.train.batch));
    }
  }

  void step(int64_t i) {
    const at::Tensor logits = network_->logits(network_->features(images_[i]));
    const int64_t n = labels_[i].size(0);
    sgd_->zero_grad();
    (*objective_)(logits.narrow(0, 0, n), labels_[i], logits.narrow(0, n, logits.size(0) - n), {})
        .total.backward();
    sgd_->step();
  }

 private:
  std::unique_ptr<Network> network_;
  std::unique_ptr<Objective> objective_;
  std::unique_ptr<torch::optim::SGD> sgd_;
  std::vector<at::Tensor> images_, labels_;
};

}  // namespace

POEM_BENCH(step) {
  const Config config = demo_config();
  const TrainingData data = load_training_data(config);
  BareLoop bare(config, data);
  compare(
      "demo network, epoch of 10 steps / bare forward, backward, SGD",
      [&] {
        Trainer trainer(config, data, at::kCPU);
        while (!trainer.done()) trainer.run_epoch();
      },
      [&] {
        for (int64_t i = 0; i < kBatches; ++i) bare.step(i);
      },
      1.05);
}

POEM_BENCH(average) {
  const Config config = demo_config();
  const TrainingData data = load_training_data(config);
  BareLoop bare(config, data);
  const auto network = make_network(demo_network(config), 0);
  Average average(*network, 0.999);
  compare(
      "train.average after a step / train step", [&] { average.update(); }, [&] { bare.step(0); }, 0.02);
}

POEM_BENCH(augment) {
  const Config config = demo_config();
  const TrainingData data = load_training_data(config);
  BareLoop bare(config, data);
  const auto id = id_crops(data, 0, 0);
  const at::Tensor mean = at::tensor(config.network.mean, at::kFloat).view({1, 3, 1, 1});
  const at::Tensor scale = 1 / at::tensor(config.network.std, at::kFloat).view({1, 3, 1, 1});
  compare(
      "augmenting and normalising 128 images / train step",
      [&] {
        const at::Tensor images = at::cat(
            {cut(data.id, id.data(), 64, data.id_cut), cut(data.outliers, &id[64], 64, data.outlier_cut)});
        keep((images.to(at::kFloat) - mean) * scale);
      },
      [&] { bare.step(0); }, 0.1);
}

}  // namespace poem::bench
