// Algorithm 2 of the paper: mine outliers with a draw from the posterior, train an epoch on ID images and
// mined outliers, let the queue and with it the posterior follow, and again.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/interrupts.h"
#include "core/safetensors.h"
#include "images/device_images.h"
#include "poem/config.h"
#include "poem/mining.h"
#include "poem/network.h"
#include "poem/objective.h"
#include "train/data.h"
#include "train/forecast.h"
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
  std::optional<double> train_accuracy;  // and the next: empty where the network does not classify
  std::optional<double> validation_accuracy;
  std::optional<MiningDiagnostics> mining;  // empty where no outliers were mined this epoch
  double mine_seconds, train_seconds, queue_seconds;
};

// The network that a config asks for.
NetworkSpec network_spec(const Config& config, const Objective& objective, int64_t channels, int64_t pixels,
                         int64_t classes);
// The same before any image is read: two classes, and as many channels as the config normalises.
NetworkSpec likely_spec(const Config& config, const Objective& objective);

class Trainer {
 public:
  Trainer(const Config& config, const TrainingData& data, at::Device device);

  // Trains up to the last epoch. After each, `report` gets its figures and then `checkpoint` is called.
  // Returns false if `stop`, asked after every batch, said so: then `checkpoint` was called in the middle of
  // an epoch. Ctrl-C while outliers are mined throws Interrupted: nothing was trained since the last
  // checkpoint. After the last batch of an epoch it does so too, and `checkpoint` was called. A loss that is
  // not finite is an Error. On a CPU a training of hours is told of in the log, once its first steps were
  // timed.
  bool run(const std::function<void(const EpochReport&)>& report, const std::function<void()>& checkpoint,
           const std::function<bool()>& stop = interrupted);

  // Everything that decides how training goes on. Random draws need no state: they follow from seed and
  // position.
  void store(TensorFile& file) const;
  void load(const TensorFile& file);

  const Config& config() const { return config_; }
  int64_t epoch() const { return epoch_; }                         // epochs that are complete
  int64_t begun() const { return epoch_ + (batch_ > 0 ? 1 : 0); }  // and the one under way
  int64_t epochs() const;                                          // of both stages
  const std::shared_ptr<Network>& network() const { return network_; }
  const std::vector<Crop>& mined() const { return mined_; }  // the outliers trained on last
  Posterior posterior() const;                               // over w, from the queue as it is

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
  MiningTask mining_task(const std::vector<Crop>& pool, const FeatureExtractor& extract,
                         const Posterior& posterior) const;
  void prepare_network();
  void calibrate_batch_norm(const std::vector<Crop>& id);
  bool train_epoch(const std::vector<Crop>& id, const std::function<bool()>& stop);
  void queue_epoch(int64_t epoch, const std::vector<Crop>& id, const FeatureExtractor& extract);
  WorkLeft work_left() const;
  bool weights_finite() const;
  void train_batch(const std::vector<Crop>& id, const std::vector<int64_t>& outlier_order);
  std::vector<Crop> views(const Crop* id, int64_t count) const;
  std::vector<Crop> outlier_batch(int64_t count, const std::vector<int64_t>& order) const;
  at::Tensor labels_of(const std::vector<Crop>& crops) const;
  at::Tensor chance(int64_t count) const;
  void add_to_sums(const Loss& loss, const at::Tensor& id_outputs, const at::Tensor& labels,
                   const at::Tensor& outlier_outputs);
  int64_t class_count() const;
  void learn(const at::Tensor& images, const at::Tensor& labels, const at::Tensor& chance);
  // `each_block` is called before every block of images, so that it may throw Interrupted.
  at::Tensor features(const DeviceImages& images, const Augmentation& cut, const Crop* crops, int64_t count,
                      void (*each_block)()) const;
  Posterior timed_posterior();
  Replay new_step();
  void start_stage();
  FeatureExtractor extractor(void (*each_block)()) const;
  std::optional<double> validation_accuracy() const;
  EpochReport averages() const;

  const Config config_;
  const TrainingData& data_;
  const at::Device device_;
  const bool bf16_;  // how run() computes; outside of it the network computes in float32
  std::unique_ptr<Objective> objective_;
  std::shared_ptr<Network> network_;
  std::unique_ptr<Miner> miner_, first_miner_;  // of all epochs but the first, and of that; null with none
  Nesterov optimiser_;
  DeviceImages id_images_, outlier_images_;
  const int64_t block_;  // images whose features are taken at a time
  Replay step_;          // learn()
  Queue queue_;

  int64_t epoch_ = 0, batch_ = 0;                 // the next batch to train
  std::vector<Crop> mined_;                       // the outliers trained on
  std::optional<MiningDiagnostics> diagnostics_;  // of this epoch's choice
  at::Tensor sums_;                               // float64, one a Sum
  double mine_seconds_ = 0, train_seconds_ = 0, queue_seconds_ = 0;
  Forecast forecast_;
};

}  // namespace poem
