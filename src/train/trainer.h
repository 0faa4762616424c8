// Algorithm 2 of the paper: mine outliers with a draw from the posterior, train an epoch on ID images and
// mined outliers, let the queue and with it the posterior follow, and again.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/safetensors.h"
#include "data/device_images.h"
#include "mining/miner.h"
#include "net/network.h"
#include "objective/objective.h"
#include "train/config.h"
#include "train/data.h"
#include "train/optimiser.h"
#include "train/queue.h"
#include "train/replay.h"

namespace poem {

struct EpochReport {
  int64_t epoch;         // counted from 1
  double learning_rate;  // of the last step
  double loss, classification_loss, regularisation;
  double id_energy;
  std::optional<double> outlier_energy;
  double train_accuracy;
  std::optional<double> validation_accuracy;
  std::optional<MiningDiagnostics> mining;  // empty where no outliers were mined this epoch
  double mine_seconds, train_seconds, queue_seconds;
};

class Trainer {
 public:
  Trainer(const Config& config, const TrainingData& data, at::Device device);

  // Trains up to the last epoch. After each, `report` gets its figures and then `checkpoint` is called.
  // Returns false if interrupted: then `checkpoint` was called in the middle of an epoch. A loss that is not
  // finite is an Error.
  bool run(const std::function<void(const EpochReport&)>& report, const std::function<void()>& checkpoint);

  // Everything that decides how training goes on. Random draws need no state: they follow from seed and
  // position.
  void store(TensorFile& file) const;
  void load(const TensorFile& file);

  const Config& config() const { return config_; }
  int64_t epoch() const { return epoch_; }  // epochs that are complete
  const std::shared_ptr<Network>& network() const { return network_; }

 private:
  // What is summed over the batches of an epoch, on the device so that no batch waits for it.
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

  bool mines(int64_t epoch) const;
  int64_t select_count() const;
  int64_t batches() const;
  double rate(int64_t batch) const;  // of a batch of this epoch
  void calibrate_batch_norm(const std::vector<Crop>& id);
  bool train_epoch(const std::vector<Crop>& id);
  bool weights_finite() const;
  void train_batch(const std::vector<Crop>& id, const std::vector<int64_t>& outlier_order);
  void learn(const at::Tensor& images, const at::Tensor& labels);
  at::Tensor features(const DeviceImages& images, const Augmentation& cut, const Crop* crops,
                      int64_t count) const;
  Posterior posterior(const FeatureExtractor& extract);
  FeatureExtractor extractor() const;
  std::optional<double> validation_accuracy() const;
  EpochReport summary() const;

  const Config config_;
  const TrainingData& data_;
  const at::Device device_;
  std::shared_ptr<Network> network_;
  std::unique_ptr<Objective> objective_;
  std::unique_ptr<Miner> miner_, first_miner_;  // of all epochs but the first, and of that; null with none
  Nesterov optimiser_;
  DeviceImages id_images_, outlier_images_;
  Replay step_;  // learn()
  Queue queue_;

  int64_t epoch_ = 0, batch_ = 0;                 // the next batch to train
  std::vector<Crop> mined_;                       // the outliers trained on
  std::optional<MiningDiagnostics> diagnostics_;  // of this epoch's choice
  at::Tensor sums_;                               // float64, one a Sum
  double mine_seconds_ = 0, train_seconds_ = 0, queue_seconds_ = 0;
};

}  // namespace poem
