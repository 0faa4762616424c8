// The smallest training on images that several tests share: three batches of 40 per epoch, two epochs, 16×16.
//
//   Config config = small_training();
//   Trainer trainer(config, small_training_data(), at::kCPU);
#pragma once
#include "poem/config.h"
#include "train/data.h"

namespace poem {

inline Config small_training() {
  Config config;
  config.data.train = "world:train:96";  // 91 of them are trained on
  config.data.outliers = {"world:outliers:150"};
  config.data.validation = 0.05;
  config.data.size = 16;
  config.network.name = "wideresnet";
  config.network.depth = 10;
  config.mining.pool = 120;
  config.train.epochs = 2;
  config.train.batch = config.train.outlier_batch = 40;
  config.seed = 3;
  return config;
}

inline const TrainingData& small_training_data() {
  static const TrainingData data = load_training_data(small_training());
  return data;
}

}  // namespace poem
