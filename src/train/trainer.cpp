#include "train/trainer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/interrupts.h"
#include "core/json_text.h"
#include "core/mapped_file.h"
#include "core/progress.h"
#include "dist/batch_norm.h"
#include "images/pool.h"
#include "mining/mine.h"
#include "mining/shares.h"
#include "mining/two_stages.h"
#include "net/weights.h"
#include "poem/error.h"
#include "poem/scores.h"
#include "train/gpu_memory.h"
#include "train/network_setup.h"

namespace poem {
namespace {

constexpr const char* kNoMiner = "none";

// Adds what happens during its lifetime to an effort.
class Stopwatch {
 public:
  Stopwatch(Effort& effort, const Team& team)
      : effort_(effort),
        team_(team),
        start_(std::chrono::steady_clock::now()),
        waited_(team.seconds_waited()),
        bytes_(team.bytes_sent()) {}
  ~Stopwatch() {
    effort_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    effort_.waited += team_.seconds_waited() - waited_;
    effort_.bytes += team_.bytes_sent() - bytes_;
  }

 private:
  Effort& effort_;
  const Team& team_;
  std::chrono::steady_clock::time_point start_;
  double waited_;
  int64_t bytes_;
};

std::unique_ptr<Miner> miner_of(const Config& config, bool first) {
  if (config.mining.miner == kNoMiner) return nullptr;
  const bool random = first && config.mining.first == FirstChoice::kRandom;
  return make_miner(random ? "random" : config.mining.miner);
}

std::shared_ptr<Network> build_network(const Config& config, const Objective& objective, const ImageSet& id,
                                       at::Device device) {
  std::shared_ptr<Network> network = training_network(config, network_spec(config, objective, id));
  network->to(device);
  return network;
}

// The crops that stand for the pool when its classes are counted: all, unless images of a world would be
// drawn for nothing else.
std::vector<Crop> sample_of(const std::vector<Crop>& pool, const Mixture& outliers) {
  constexpr size_t kEnough = 10000;
  const auto lazy = [](const MixturePart& part) { return part.lazy != nullptr; };
  const auto& parts = outliers.parts();
  if (pool.size() <= kEnough || std::none_of(parts.begin(), parts.end(), lazy)) return pool;
  std::vector<Crop> some;
  for (size_t i = 0; i < kEnough; ++i) some.push_back(pool[i * pool.size() / kEnough]);
  return some;
}

// Each rank's own statistics move by the same rule, so that their means are those of all images.
void average_over(const Team& team, const std::vector<at::Tensor>& tensors) {
  if (team.size() == 1) return;
  for (const at::Tensor& tensor : tensors) {
    team.sum(tensor);
    tensor.div_(team.size());
  }
}

int64_t class_count(const TrainingData& data) { return static_cast<int64_t>(data.id.class_names.size()); }

}  // namespace

Trainer::Trainer(const Config& config, const TrainingData& data, at::Device device, const Team& team)
    : config_(config),
      data_(data),
      device_(device),
      team_(team),
      bf16_(computes_in_bf16(config.train.precision, device)),
      objective_(make_objective(config.objective)),
      network_(build_network(config, *objective_, data.id, device)),
      miner_(miner_of(config, /*first=*/false)),
      first_miner_(miner_of(config, /*first=*/true)),
      batches_(config, data, objective_->views(), device, team),
      step_(*network_, *objective_, config.train, class_count(data), device, team),
      extract_(*network_, device, config.data.size, bf16_),
      queue_(config, network_->feature_count(), team),
      forecast_(device.is_cpu()) {
  if (config.train.batch < team.size()) {
    throw Error(
        "train.batch",
        fmt::format("{} images per step are fewer than the {} processes", config.train.batch, team.size()),
        "start fewer processes, or raise it");
  }
  // cuDNN's choice of algorithms, and how our own kernels add (cuda/dense_block.cpp).
  at::globalContext().setDeterministicCuDNN(config.train.deterministic);
  if (miner_ == nullptr) return;
  check_select(draw_pool(data.outliers, config.mining.pool, seed(), 0),
               mining_settings());  // now, not after the first scoring
}

Imported Trainer::start_from(const std::string& path) {
  Imported imported = import_weights(*network_, path, data_.id.class_names);
  step_.restart();  // the average starts at these weights
  return imported;
}

// Algorithm 2. Each part does nothing if a stopped epoch has already done it.
EpochReport Trainer::run_epoch(const std::function<bool()>& stop) {
  const std::vector<Crop> id = id_crops(data_, seed(), epoch_);  // D_in, in this epoch's order
  start(id);
  mine_outliers();       // w ~ P(w), D_out: those of the pool with the largest Ĝ(x) = −|wᵀφ(x)|
  train(id, stop);       // L_cls + β L_reg on D_in and D_out
  update_queue(epoch_);  // φ(x) of D_in and D_out, from which the next P(w) is computed
  return finish_epoch();
}

// What comes before the first epoch of a training, and of its second stage.
void Trainer::start(const std::vector<Crop>& id) {
  if (batch_ > 0) return;
  if (epoch_ == 0) prepare_network(*network_, data_, seed(), device_);
  if (epoch_ == config_.train.pretrain) step_.restart();  // of pre-training only the weights remain
  // The last epoch of a training is not queued. A longer one, which goes on from there, needs it.
  if (epoch_ > 0) update_queue(epoch_ - 1);
  if (epoch_ > 0) return;
  // Imported weights come with their statistics.
  if (mines(0) && first_miner_->uses_features() && config_.weights.empty()) calibrate(id);
  for (const Network::Named& tensors : {network_->parameters(), network_->buffers()}) {
    for (const auto& [name, tensor] : tensors)
      team_.copy_first(tensor);  // all ranks start from the same bits
  }
}

void Trainer::calibrate(const std::vector<Crop>& id) {
  const Stopwatch watch(mine_effort_, team_);
  const Bf16Scope precision(*network_, bf16_);
  calibrate_batch_norm(*network_, batches_.id_images(), id, data_.id_cut, config_.train.batch,
                       [this](int64_t images) { forecast_.add_images(images, work_left()); });
}

void Trainer::mine_outliers() {
  if (batch_ > 0 || !mines(epoch_)) return;
  const Posterior current = timed_posterior();  // P(w)
  const Stopwatch watch(mine_effort_, team_);
  MiningTask task;
  task.pool = draw_pool(data_.outliers, config_.mining.pool, seed(), epoch_);  // D_pool: S outliers
  task.settings = mining_settings();
  task.network = network_view();
  task.posterior = &current;
  task.batch = config_.train.outlier_batch;
  task.seed = seed();
  task.epoch = epoch_;
  const Miner& miner = epoch_ == config_.train.pretrain ? *first_miner_ : *miner_;
  Mined mined = mine(miner, task, mined_, team_);  // mining/thompson.cpp draws w ~ P(w)
  mined_ = std::move(mined.crops);
  diagnostics_ = std::move(mined.diagnostics);
  diagnostics_->classes = miner.uses_features()
                              ? class_shares(data_.outliers, task.pool, mined_)
                              : class_shares(data_.outliers, sample_of(task.pool, data_.outliers), mined_);
  if (data_.outliers.parts().size() > 1)
    diagnostics_->sources = source_shares(data_.outliers, task.pool, mined_);
}

void Trainer::train(const std::vector<Crop>& id, const std::function<bool()>& stop) {
  const Stopwatch watch(train_effort_, team_);
  const int64_t count = batches_.count();
  batches_.begin_epoch(epoch_, id, mined_);
  Progress bar("training", count - batch_, "batches");
  forecast_.begin_steps();
  const Bf16Scope precision(*network_, bf16_);
  const bool global = config_.train.batch_norm == BatchStatistics::kGlobal;
  const GlobalBatchNorm statistics(global ? team_ : Team());
  network_->train(true);
  while (batch_ < count) {
    train_step();
    ++batch_;
    bar.advance(1, [this] { return figures_text(figures()); });
    if (team_.any(stop())) break;
    forecast_.add_step(work_left());
  }
  check_mapped_files();  // what was just learnt from them
  if (!global) average_over(team_, batch_norm_statistics(*network_));
  if (!step_.finite()) {
    throw Error(
        fmt::format("epoch {}", epoch_ + 1), "the training diverged: loss or weights are not finite",
        epoch_ == 0 ? "lower train.learning_rate" : "lower train.learning_rate; the last checkpoint is kept");
  }
  if (batch_ < count) throw Interrupted();
}

// If another rank goes in the middle of a step, what this one has is not worth saving, even if a signal ended
// both.
void Trainer::train_step() {
  const MixedBatch batch = batches_[batch_];
  try {
    step_(batch, rate(batch_));
  } catch (const Interrupted&) {
    throw SaidElsewhere();
  }
}

// Q: the last epochs' φ(x), as far as the posterior of a later epoch needs them.
void Trainer::update_queue(int64_t epoch) {
  if (!mines(epoch) || !mines(epoch + 1) || !miner_->uses_posterior() || queue_.holds(epoch)) return;
  const Stopwatch watch(queue_effort_, team_);
  queue_.push(epoch, id_crops(data_, seed(), epoch), mined_, features());
}

// P(w) = N(σ⁻² A⁻¹ Φy, A⁻¹), A = σ⁻² ΦΦᵀ + Σ⁻¹; the prior N(0, Σ) while the queue is empty.
Posterior Trainer::posterior() const {
  return Posterior(queue_.statistics(data_, features()), config_.posterior);
}

Posterior Trainer::timed_posterior() {
  const Stopwatch watch(queue_effort_, team_);
  return posterior();
}

EpochReport Trainer::finish_epoch() {
  EpochReport report = figures();
  report.validation_accuracy = validation_accuracy();
  if (team_.size() > 1) report.team = team_report();
  ++epoch_;
  batch_ = 0;
  diagnostics_.reset();
  step_.clear_sums();
  mine_effort_ = train_effort_ = queue_effort_ = {};
  return report;
}

TeamReport Trainer::team_report() const {
  TeamReport report{mine_effort_.bytes, train_effort_.bytes, queue_effort_.bytes, {}};
  constexpr double kMicro = 1e6;
  double work = 0;
  for (const Effort& effort : {mine_effort_, train_effort_, queue_effort_})
    work += effort.seconds - effort.waited;
  for (const int64_t micros : team_.joined({std::llround(work * kMicro)}))
    report.seconds.push_back(static_cast<double>(micros) / kMicro);
  return report;
}

// In float32, as the detector will compute. The last batch of an epoch may be smaller; it is left out unless
// it is the only one.
std::shared_ptr<Network> Trainer::detector_network() const {
  if (!step_.average() || begun() == 0) return network_;
  constexpr int64_t kMost = 100;
  const int64_t whole = static_cast<int64_t>(data_.train_rows.size()) / config_.train.batch;
  const std::shared_ptr<Network> averaged = step_.average()->network();
  if (config_.train.freeze == Freeze::kBackbone) return averaged;  // with the network's own statistics
  take_batch_norm(*averaged, std::clamp<int64_t>(whole, 1, kMost),
                  [this](int64_t batch) { return batches_.images(batch); });
  return averaged;
}

bool Trainer::mines(int64_t epoch) const {
  const int64_t first = config_.train.pretrain, until = config_.mining.until;
  return miner_ != nullptr && epoch >= first && epoch < epochs() && (until == 0 || epoch < first + until);
}

int64_t Trainer::epochs() const { return config_.train.pretrain + config_.train.epochs; }

// N is as many as an epoch trains on, unless the config says otherwise.
MiningSettings Trainer::mining_settings() const {
  MiningSettings settings = config_.mining;
  const auto id = static_cast<int64_t>(data_.train_rows.size());
  if (settings.select == 0)
    settings.select = std::max<int64_t>(1, id * config_.train.outlier_batch / config_.train.batch);
  return settings;
}

NetworkView Trainer::network_view() const {
  NetworkView view;
  const bool two_stages = config_.mining.candidates < 1;
  view.features = features(two_stages ? "scoring candidates" : "scoring the pool").outliers;
  view.first_look = [this](const std::vector<Crop>& crops, const FeatureVisit& visit) {
    extract_(batches_.outlier_images(), crops, data_.outlier_cut, visit, "looking at the pool", Scale::kHalf);
  };
  view.first_look_count = network_->feature_count();
  view.logits = [this](const at::Tensor& features) {
    const at::NoGradGuard no_grad;
    return network_->logits(features);
  };
  view.id_score = [this,
                   score = std::shared_ptr<Score>(make_score(config_.score))](const at::Tensor& features) {
    const at::NoGradGuard no_grad;
    const at::Tensor outputs = network_->logits(features);
    const int64_t classes = class_count(data_);
    Batch batch;
    batch.logits = outputs.narrow(1, 0, classes);
    batch.rejects = outputs.narrow(1, classes, outputs.size(1) - classes);
    batch.features = features.narrow(1, 0, network_->feature_count());
    return (*score)(batch);
  };
  return view;
}

FeatureWalks Trainer::features(const std::string& what) const {
  return {[this, what](const std::vector<Crop>& crops, const FeatureVisit& visit) {
            extract_(batches_.id_images(), crops, data_.id_cut, visit, what);
          },
          [this, what](const std::vector<Crop>& crops, const FeatureVisit& visit) {
            extract_(batches_.outlier_images(), crops, data_.outlier_cut, visit, what);
          }};
}

// Each of the two stages goes through the schedule as a whole.
double Trainer::rate(int64_t batch) const {
  const bool pretrains = epoch_ < config_.train.pretrain;
  const int64_t first = pretrains ? 0 : config_.train.pretrain;
  const int64_t epochs = pretrains ? config_.train.pretrain : config_.train.epochs;
  const int64_t batches = batches_.count();
  const auto done = static_cast<double>((epoch_ - first) * batches + batch);
  return learning_rate(config_.train, epochs, done / static_cast<double>(epochs * batches));
}

// In float32, as the detector will compute. No signal ends it: an epoch whose last batch is trained gets its
// figures, so that every start of a run makes progress.
std::optional<double> Trainer::validation_accuracy() const {
  if (data_.validation_rows.empty() || !network_->classifies()) return std::nullopt;
  std::vector<Crop> crops;
  for (int64_t row : data_.validation_rows) crops.push_back({row, 0});
  const at::Tensor labels = labels_of(data_, crops);
  const Range part = team_.part(static_cast<int64_t>(crops.size()));
  crops = {crops.begin() + part.first, crops.begin() + part.last};
  int64_t correct = 0;
  const FeatureExtractor extract(*network_, device_, config_.data.size, /*bf16=*/false, [] {});
  extract(
      batches_.id_images(), crops, plain(config_.data.size), [&](int64_t first, const at::Tensor& features) {
        const at::Tensor named = network_->logits(features).narrow(1, 0, class_count(data_)).argmax(1).cpu();
        correct += (named == labels.narrow(0, part.first + first, named.size(0))).sum().item<int64_t>();
      });
  return team_.sum(static_cast<double>(correct)) / static_cast<double>(data_.validation_rows.size());
}

EpochReport Trainer::figures() const {
  EpochReport report;
  report.epoch = epoch_ + 1;
  report.learning_rate = rate(batch_ - 1);
  step_.report(report);
  report.mining = diagnostics_;
  report.mine_seconds = mine_effort_.seconds;
  report.train_seconds = train_effort_.seconds;
  report.queue_seconds = queue_effort_.seconds;
  return report;
}

// From this epoch's mining on. A step counts as its images, three times: forward, and twice that backward.
WorkLeft Trainer::work_left() const {
  const int64_t first = std::max(epoch_, config_.train.pretrain), until = config_.mining.until;
  const int64_t end = until == 0 ? epochs() : std::min(epochs(), config_.train.pretrain + until);
  const auto mined_epochs = miner_ == nullptr ? 0.0 : static_cast<double>(std::max<int64_t>(0, end - first));
  const auto id = static_cast<double>(data_.train_rows.size());
  double features = 0;
  const auto pool = static_cast<double>(config_.mining.pool);
  constexpr double kHalfSide = 0.25;  // the work of an image of half the side
  if (miner_ && miner_->uses_features())
    features += pool * scoring_work(config_.mining.candidates, kHalfSide, pool);
  if (miner_ && miner_->uses_posterior()) features += id + static_cast<double>(mining_settings().select);
  WorkLeft work;
  work.images = mined_epochs * features / team_.size();
  work.steps = static_cast<double>((epochs() - epoch_) * batches_.count() - batch_);
  const double ids_per_step = id / static_cast<double>(batches_.count());  // ID images
  const double outliers = miner_ ? static_cast<double>(config_.train.outlier_batch) : 0;
  work.images_per_step = ids_per_step * (static_cast<double>(objective_->views()) +
                                         outliers / static_cast<double>(config_.train.batch));
  return work;
}

void Trainer::store(TensorFile& file) const {
  store_weights(*network_, "network.", file);
  step_.store(file);
  store_crops(mined_, "mined", file);
  queue_.store(file);
  file.tensors["seconds"] =
      at::tensor({mine_effort_.seconds, train_effort_.seconds, queue_effort_.seconds}, at::kDouble);
  file.tensors["position"] = at::tensor(std::vector<int64_t>{epoch_, batch_}, at::kLong);
  if (diagnostics_) file.metadata["diagnostics"] = json_text(to_json(*diagnostics_));
}

void Trainer::load(const TensorFile& file) {
  load_weights(*network_, "network.", file);
  step_.load(file);
  mined_ = load_crops(file, "mined", data_.outliers.size());
  queue_.load(file, data_.outliers.size());
  const at::Tensor seconds = at::zeros({3}, at::kDouble), position = at::zeros({2}, at::kLong);
  load_tensor(file, "seconds", seconds);
  load_tensor(file, "position", position);
  mine_effort_.seconds = seconds[0].item<double>();
  train_effort_.seconds = seconds[1].item<double>();
  queue_effort_.seconds = seconds[2].item<double>();
  epoch_ = position[0].item<int64_t>();
  batch_ = position[1].item<int64_t>();
  if (epoch_ < 0 || batch_ < 0 || batch_ > batches_.count())
    throw Error(file.path,
                fmt::format("tensor 'position' is impossible: batch {} of epoch {}", batch_, epoch_),
                "train again");
  if (begun() > 0) batches_.begin_epoch(begun() - 1, id_crops(data_, seed(), begun() - 1), mined_);
  if (file.metadata.count("diagnostics") > 0) {
    diagnostics_ = diagnostics_from(nlohmann::json::parse(file.text("diagnostics")));
  }
}

}  // namespace poem
