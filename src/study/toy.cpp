#include "study/toy.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "poem/detector.h"
#include "poem/metrics.h"
#include "poem/scores.h"
#include "train/trainer.h"

namespace poem {
namespace {

// n×2 points as images of one pixel and two channels, which the network takes.
ImageSet as_images(const at::Tensor& points) { return {"points", points.view({-1, 2, 1, 1}), {}, {}}; }
at::Tensor as_points(const ImageSet& images) { return images.pixels.view({-1, 2}); }

at::Tensor max_softmax_without_outliers(Config config, const TrainingData& data, at::Device device) {
  config.mining.miner = "none";
  config.objective.name = "cross_entropy";
  Trainer trainer(config, data, device);
  while (!trainer.done()) trainer.run_epoch();
  const Detector detector{trainer.network(), make_score("msp"), std::nullopt, data.id.class_names, 1};
  return detector.scores(as_images(toy_grid()));
}

// Records what a training looks like after each epoch.
class Observer {
 public:
  Observer(const Trainer& trainer, const TrainingData& data, at::Device device)
      : trainer_(trainer), data_(data), device_(device), grid_(as_images(toy_grid())) {
    look_at_belief();
  }

  void finish_epoch() {
    at::Tensor rows = at::empty({static_cast<int64_t>(trainer_.mined().size())}, at::kLong);
    for (int64_t i = 0; i < rows.numel(); ++i) rows.data_ptr<int64_t>()[i] = trainer_.mined()[i].image;
    next_.mined = as_points(data_.outliers.parts()[0].images).index_select(0, rows);

    const Detector detector{trainer_.network(), make_score("energy"), std::nullopt, data_.id.class_names, 1};
    next_.grid_score = detector.scores(grid_);
    next_.threshold =
        threshold_at_tpr(to_doubles(detector.scores(subset(data_.id, data_.validation_rows))), 0.95);
    epochs_.push_back(next_);
    look_at_belief();
  }

  std::vector<ToyEpoch> take() { return std::move(epochs_); }

 private:
  void look_at_belief() {
    const at::NoGradGuard no_grad;
    const at::Tensor mean = trainer_.posterior().mean().to(at::kFloat).to(device_);
    trainer_.network()->train(false);
    const auto logits = [&](const at::Tensor& pixels) {
      return trainer_.network()->features(pixels.to(device_)).mv(mean).cpu();
    };
    next_.grid_logit = logits(grid_.pixels);
    next_.id_logit = logits(data_.id.pixels);
    next_.outlier_logit = logits(data_.outliers.parts()[0].images.pixels);
  }

  const Trainer& trainer_;
  const TrainingData& data_;
  const at::Device device_;
  const ImageSet grid_;
  ToyEpoch next_;
  std::vector<ToyEpoch> epochs_;
};

}  // namespace

at::Tensor toy_grid() {
  const double half = kToyReach / static_cast<double>(kToySide);
  const at::Tensor line = at::linspace(-kToyReach + half, kToyReach - half, kToySide, at::kFloat);
  return at::stack({line.repeat({kToySide}), line.repeat_interleave(kToySide)}, 1);
}

Config toy_config(int64_t seed) {
  Config config;
  config.seed = seed;
  config.data.train = fmt::format("world2d:train:1200:{}", seed);
  config.data.outliers = {fmt::format("world2d:outliers:10000:{}", seed)};
  config.data.size = 1;
  config.data.validation = 0.25;
  config.augment.padding = config.outliers.padding = 0;
  config.augment.flip = config.outliers.flip = false;
  config.network.name = "mlp";
  config.network.mean = {0, 0};
  config.network.std = {2, 2};
  config.mining.pool = 5000;
  config.mining.select = 300;
  config.train.epochs = 30;
  config.train.batch = config.train.outlier_batch = 30;
  config.train.learning_rate = 0.01;
  config.train.schedule = Schedule::kCosine;
  return config;
}

Toy run_toy(const Config& config, at::Device device) {
  const TrainingData data = load_training_data(config);
  Toy toy{config, as_points(data.id), data.id.labels, as_points(data.outliers.parts()[0].images), {}, {}};
  toy.max_softmax = max_softmax_without_outliers(config, data, device);
  Trainer trainer(config, data, device);
  Observer observer(trainer, data, device);
  while (!trainer.done()) {
    trainer.run_epoch();
    observer.finish_epoch();
  }
  toy.epochs = observer.take();
  return toy;
}

}  // namespace poem
