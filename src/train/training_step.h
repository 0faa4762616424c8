// One step of training on a mixed batch of ID images and outliers, and the sums from which an epoch's figures
// are computed.
//
//   TrainingStep step(*network, *objective, config.train, class_count, device);
//   step(batch, rate);
//   step.report(figures);   // averages of the steps since clear_sums()
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "core/safetensors.h"
#include "dist/gradients.h"
#include "dist/team.h"
#include "poem/config.h"
#include "poem/network.h"
#include "poem/objective.h"
#include "train/average.h"
#include "train/epoch_report.h"
#include "train/optimiser.h"
#include "train/replay.h"

namespace poem {

// On the network's device: ID images first, then outliers, which BatchNorm sees together. A rank of a team
// has its part of the images (Team::rows), and the labels and the chance of all.
struct MixedBatch {
  at::Tensor images;  // uint8 (n + k)×C×H×W
  at::Tensor labels;  // n int64, of the ID images
  at::Tensor chance;  // k float32, uniform in [0, 1), for an objective that draws
};

class TrainingStep {
 public:
  // `network` and `objective` must outlive it.
  TrainingStep(Network& network, const Objective& objective, const TrainSettings& settings, int64_t classes,
               at::Device device, const Team& team = {});

  // L_cls + β L_reg, its gradient, and one step down. On a GPU nothing waits for the result.
  void operator()(const MixedBatch& batch, double rate);

  // Forgets the momentum and the averaged weights. The next batches may have another shape.
  void restart();

  const std::optional<Average>& average() const { return average_; }  // of the weights; empty if not wanted

  bool finite() const;  // the loss since clear_sums(), and all weights
  void report(EpochReport& figures) const;
  void clear_sums();

  void store(TensorFile& file) const;
  void load(const TensorFile& file);

 private:
  // What is summed over steps, on the device so that no step waits for it.
  enum Sum {
    kLoss,
    kClassification,
    kRegularisation,
    kIdEnergy,
    kOutlierEnergy,
    kCorrect,
    kIds,
    kOutliers,
    kSums
  };

  Replay recorded();
  void learn(const MixedBatch& batch);
  void add_to_sums(const Loss& loss, const at::Tensor& id_outputs, const at::Tensor& labels,
                   const at::Tensor& outlier_outputs);

  Network& network_;
  const Objective& objective_;
  const int64_t classes_;
  const at::Device device_;
  const Team team_;
  GradientSum gradients_;
  Nesterov optimiser_;
  std::optional<Average> average_;
  Replay step_;      // learn()
  at::Tensor sums_;  // float64, one per Sum
};

}  // namespace poem
