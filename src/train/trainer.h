// One epoch of the paper's Algorithm 2: mine outliers with a draw from the posterior, train on ID images and
// mined outliers, let the queue and with it the posterior follow.
//
//   Trainer trainer(config, data, device);
//   while (!trainer.done()) print(trainer.run_epoch());
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/interrupts.h"
#include "core/safetensors.h"
#include "dist/team.h"
#include "poem/config.h"
#include "poem/mining.h"
#include "poem/network.h"
#include "poem/objective.h"
#include "train/batches.h"
#include "train/data.h"
#include "train/epoch_report.h"
#include "train/feature_extractor.h"
#include "train/forecast.h"
#include "train/queue.h"
#include "train/training_step.h"

namespace poem {

class Trainer {
 public:
  // `data` must outlive it. The ranks of a team train one network together and have the same state after
  // every call; the times of store() are this rank's own.
  Trainer(const Config& config, const TrainingData& data, at::Device device, const Team& team = {});

  // Starts from the weights of a file (network.init) instead of drawn ones. Only before the first epoch.
  Imported start_from(const std::string& path);

  bool done() const { return epoch_ == epochs(); }

  // Trains one epoch, or the rest of one that was stopped. `stop` is asked after every batch. If it says so,
  // and on Ctrl-C while features are taken, Interrupted is thrown: in_epoch() then tells whether there is
  // anything to save, and a trainer that loads what store() wrote goes on from there. A loss that is not
  // finite is an Error.
  EpochReport run_epoch(const std::function<bool()>& stop = interrupted);

  // Everything that decides how training goes on. Random draws need no state: they follow from seed and
  // position.
  void store(TensorFile& file) const;
  void load(const TensorFile& file);

  const Config& config() const { return config_; }
  const Team& team() const { return team_; }
  int64_t epoch() const { return epoch_; }                         // epochs that are complete
  bool in_epoch() const { return batch_ > 0; }                     // one more has been begun
  int64_t begun() const { return epoch_ + (in_epoch() ? 1 : 0); }  // epochs, that one included
  int64_t epochs() const;                                          // of both stages
  const std::shared_ptr<Network>& network() const { return network_; }
  // What a detector gets: the network, or with train.average a copy with the averaged weights. BatchNorm's
  // statistics are then the means over the first batches (at most 100) of the epoch begun last, unless the
  // backbone is frozen.
  std::shared_ptr<Network> detector_network() const;
  const std::vector<Crop>& mined() const { return mined_; }  // the outliers trained on last
  Posterior posterior() const;                               // over w, from the queue as it is

 private:
  void start(const std::vector<Crop>& id);
  void calibrate(const std::vector<Crop>& id);
  void mine_outliers();
  void train(const std::vector<Crop>& id, const std::function<bool()>& stop);
  void train_step();
  void update_queue(int64_t epoch);
  EpochReport finish_epoch();
  TeamReport team_report() const;

  uint64_t seed() const { return static_cast<uint64_t>(config_.seed); }
  bool mines(int64_t epoch) const;
  MiningSettings mining_settings() const;
  NetworkView network_view() const;
  FeatureWalks features(const std::string& what = "") const;  // with a progress bar of this name
  Posterior timed_posterior();
  double rate(int64_t batch) const;  // of a batch of this epoch
  std::optional<double> validation_accuracy() const;
  EpochReport figures() const;  // of the epoch so far
  WorkLeft work_left() const;

  const Config config_;
  const TrainingData& data_;
  const at::Device device_;
  const Team team_;
  const bool bf16_;  // how an epoch computes; outside of it the network computes in float32
  std::unique_ptr<Objective> objective_;
  std::shared_ptr<Network> network_;
  std::unique_ptr<Miner> miner_, first_miner_;  // of all epochs but the first, and of that; null with none
  Batches batches_;                             // of the epoch begun last
  TrainingStep step_;
  FeatureExtractor extract_;
  Queue queue_;

  int64_t epoch_ = 0, batch_ = 0;                 // the next batch to train
  std::vector<Crop> mined_;                       // D_out: the outliers trained on
  std::optional<MiningDiagnostics> diagnostics_;  // of this epoch's choice
  Effort mine_effort_, train_effort_, queue_effort_;
  Forecast forecast_;
};

}  // namespace poem
