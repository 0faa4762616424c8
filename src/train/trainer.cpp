#include "train/trainer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/interrupts.h"
#include "core/progress.h"
#include "images/pool.h"
#include "net/weights.h"
#include "poem/error.h"
#include "poem/random.h"
#include "poem/scores.h"
#include "train/epoch_report.h"
#include "train/gpu_memory.h"

namespace poem {
namespace {

// Adds the seconds of its own lifetime to a total.
class Stopwatch {
 public:
  explicit Stopwatch(double& total) : total_(total), start_(std::chrono::steady_clock::now()) {}
  ~Stopwatch() { total_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  double& total_;
  std::chrono::steady_clock::time_point start_;
};

// While it lives the network may compute in bfloat16. Whoever looks at it from outside sees what the detector
// will be.
class Precision {
 public:
  Precision(Network& network, bool bf16) : network_(network) { network.use_bf16(bf16); }
  ~Precision() { network_.use_bf16(false); }

 private:
  Network& network_;
};

DeviceImages::Place place(const Config& config) {
  return config.train.images == "stream" ? DeviceImages::Place::kStream : DeviceImages::Place::kAuto;
}

std::shared_ptr<Network> build_network(const Config& config, const Objective& objective, const ImageSet& id,
                                       at::Device device) {
  const NetworkSpec spec = network_spec(config, objective, id.channels(), id.height() * id.width(),
                                        static_cast<int64_t>(id.class_names.size()));
  std::shared_ptr<Network> network = make_network(spec, config.seed);
  network->to(device);
  return network;
}

}  // namespace

NetworkSpec network_spec(const Config& config, const Objective& objective, int64_t channels, int64_t pixels,
                         int64_t classes) {
  NetworkSpec spec = config.network;
  spec.head = objective.head();
  spec.channels = channels;
  spec.pixels = pixels;
  spec.classes = objective.outputs(classes);
  return spec;
}

NetworkSpec likely_spec(const Config& config, const Objective& objective) {
  const auto channels = static_cast<int64_t>(config.network.mean.size());
  return network_spec(config, objective, channels, config.data.size * config.data.size, 2);
}

Trainer::Trainer(const Config& config, const TrainingData& data, at::Device device)
    : config_(config),
      data_(data),
      device_(device),
      bf16_(computes_in_bf16(config.train.precision, device)),
      objective_(make_objective(config.objective)),
      network_(build_network(config, *objective_, data.id, device)),
      miner_(config.mining.miner == "none" ? nullptr : make_miner(config.mining.miner)),
      first_miner_(config.mining.miner == "none"
                       ? nullptr
                       : make_miner(config.mining.first == "random" ? "random" : config.mining.miner)),
      optimiser_(*network_, config.train.momentum, config.train.weight_decay),
      id_images_(data.id, device, place(config)),
      outlier_images_(data.outliers, device, place(config)),
      block_(images_a_block(config.data.size, device)),
      step_(new_step()),
      queue_(config, network_->feature_count()),
      sums_(at::zeros({kSums}, at::TensorOptions(at::kDouble).device(device))),
      forecast_(device.is_cpu()) {
  // cuDNN's choice of algorithms, and how our own kernels add (cuda/dense_block.cpp).
  at::globalContext().setDeterministicCuDNN(config.train.deterministic);
  if (miner_ == nullptr) return;
  const auto pool =
      draw_pool(data.outliers.size(), config.mining.pool, static_cast<uint64_t>(config.seed), 0);
  check_select(pool, select_count(), config.mining.max_per_image,
               config.mining.skip);  // now, not after the first scoring
}

// Algorithm 2. An epoch that was interrupted goes on at batch_ with the outliers it had.
bool Trainer::run(const std::function<void(const EpochReport&)>& report,
                  const std::function<void()>& checkpoint, const std::function<bool()>& stop) {
  const auto seed = static_cast<uint64_t>(config_.seed);
  const FeatureExtractor extract = extractor(stop_if_interrupted);
  if (epoch_ == 0 && batch_ == 0) prepare_network();
  // The last epoch of a training is not queued. A longer one, which goes on from there, wants it.
  if (epoch_ > 0 && batch_ == 0 && !queue_.holds(epoch_ - 1))
    queue_epoch(epoch_ - 1, id_crops(data_, seed, epoch_ - 1), extract);
  while (epoch_ < epochs()) {
    const std::vector<Crop> id = id_crops(data_, seed, epoch_);  // D_in, in this epoch's order
    if (batch_ == 0 && epoch_ == config_.train.pretrain) start_stage();
    if (batch_ == 0 && mines(epoch_)) {
      const Miner& miner = epoch_ == config_.train.pretrain ? *first_miner_ : *miner_;
      if (epoch_ == 0 && miner.uses_features()) calibrate_batch_norm(id);
      const Posterior posterior = timed_posterior();  // P_t(w)
      const Stopwatch watch(mine_seconds_);
      // D_pool: S outliers, anew every epoch.
      const std::vector<Crop> pool = draw_pool(data_.outliers.size(), config_.mining.pool, seed, epoch_);
      // w_t ~ P_t; D_out: the N of the pool with the largest Ĝ(x) = −|w_tᵀ φ(x)|.
      Mined mined = mine(miner, mining_task(pool, extract, posterior), mined_);
      mined_ = std::move(mined.crops);
      diagnostics_ = mined.diagnostics;
      diagnostics_->classes = class_shares(data_.outliers, pool, mined_);
    }
    if (!train_epoch(id, stop)) {  // one epoch of L_cls + β L_reg
      checkpoint();
      return false;
    }
    try {
      queue_epoch(epoch_, id, extract);
    } catch (const Interrupted&) {  // the epoch goes on behind its last batch
      checkpoint();
      throw;
    }
    EpochReport figures = averages();
    figures.validation_accuracy = validation_accuracy();
    report(figures);
    ++epoch_;
    batch_ = 0;
    diagnostics_.reset();
    sums_.zero_();
    mine_seconds_ = train_seconds_ = queue_seconds_ = 0;
    checkpoint();
    if (stop() && epoch_ < epochs()) return false;
  }
  return true;
}

// Q: the last epochs' φ(x); from it Φ and the posterior of the next epoch.
void Trainer::queue_epoch(int64_t epoch, const std::vector<Crop>& id, const FeatureExtractor& extract) {
  if (!mines(epoch) || !mines(epoch + 1) || !miner_->uses_posterior()) return;
  const Stopwatch watch(queue_seconds_);
  queue_.push(epoch, id, mined_, extract);
}

// P_t(w) = N(σ⁻² A⁻¹ Φy, A⁻¹), A = σ⁻² ΦΦᵀ + Σ⁻¹; the prior N(0, Σ) while the queue is empty.
Posterior Trainer::posterior() const {
  return Posterior(queue_.statistics(data_, extractor(stop_if_interrupted)), config_.posterior);
}

bool Trainer::mines(int64_t epoch) const {
  const int64_t first = config_.train.pretrain, until = config_.mining.until;
  return miner_ != nullptr && epoch >= first && epoch < epochs() && (until == 0 || epoch < first + until);
}

int64_t Trainer::epochs() const { return config_.train.pretrain + config_.train.epochs; }

int64_t Trainer::select_count() const {
  if (config_.mining.select > 0) return config_.mining.select;
  const auto id = static_cast<int64_t>(data_.train_rows.size());
  return std::max<int64_t>(1, id * config_.train.outlier_batch / config_.train.batch);
}

int64_t Trainer::batches() const {
  return (static_cast<int64_t>(data_.train_rows.size()) + config_.train.batch - 1) / config_.train.batch;
}

// Each of the two stages goes through the schedule as a whole.
double Trainer::rate(int64_t batch) const {
  const bool pretrains = epoch_ < config_.train.pretrain;
  const int64_t first = pretrains ? 0 : config_.train.pretrain;
  const int64_t epochs = pretrains ? config_.train.pretrain : config_.train.epochs;
  const auto done = static_cast<double>((epoch_ - first) * batches() + batch);
  return learning_rate(config_.train, epochs, done / static_cast<double>(epochs * batches()));
}

MiningTask Trainer::mining_task(const std::vector<Crop>& pool, const FeatureExtractor& extract,
                                const Posterior& posterior) const {
  MiningTask task{pool,
                  select_count(),
                  config_.mining.max_per_image,
                  extract.outliers,
                  &posterior,
                  static_cast<uint64_t>(config_.seed),
                  epoch_,
                  config_.mining.skip,
                  {},
                  {},
                  config_.mining.random};
  task.logits = [this](const at::Tensor& features) {
    const at::NoGradGuard no_grad;
    return network_->logits(features);
  };
  task.id_score = [logits = task.logits, score = std::shared_ptr<Score>(make_score(config_.score)),
                   classes = class_count(), count = network_->feature_count()](const at::Tensor& features) {
    const at::Tensor outputs = logits(features);
    return (*score)({outputs.narrow(1, 0, classes),
                     outputs.narrow(1, classes, outputs.size(1) - classes),
                     features.narrow(1, 0, count),
                     {},
                     nullptr});
  };
  return task;
}

// Some networks (net/density.cpp) learn from images before any training: from crops such as they will see.
void Trainer::prepare_network() {
  constexpr int64_t kMost = 10000;
  if (!network_->prepares()) return;
  const auto seed = static_cast<uint64_t>(config_.seed);
  std::vector<Crop> id;
  // Few images give several crops each.
  for (int64_t epoch = 0; static_cast<int64_t>(id.size()) < kMost; ++epoch) {
    const std::vector<Crop> crops = id_crops(data_, seed, epoch);
    id.insert(id.end(), crops.begin(), crops.end());
  }
  const std::vector<Crop> outliers = draw_pool(data_.outliers.size(), kMost, seed, 0);
  network_->prepare(cut(data_.id, id.data(), kMost, data_.id_cut).to(device_),
                    cut(data_.outliers, outliers.data(), kMost, data_.outlier_cut).to(device_));
}

// BatchNorm's running statistics start at 0 and 1, with which features explode through the layers: before the
// first scoring, a pass over the ID images in training mode sets them (several over few images: each batch
// moves them by a tenth).
void Trainer::calibrate_batch_norm(const std::vector<Crop>& id) {
  constexpr int64_t kLeast = 50;
  const Stopwatch watch(mine_seconds_);
  const at::NoGradGuard no_grad;
  const Precision precision(*network_, bf16_);
  network_->train(true);
  for (int64_t i = 0; i < std::max(batches(), kLeast); ++i) {
    stop_if_interrupted();
    const int64_t first = i % batches() * config_.train.batch;
    const int64_t count = std::min<int64_t>(config_.train.batch, static_cast<int64_t>(id.size()) - first);
    network_->features(id_images_.cut(&id[first], count, data_.id_cut));
    forecast_.add_images(count, work_left());
  }
}

// From this epoch's mining on. A step counts as its images, three times: forward, and twice that backward.
WorkLeft Trainer::work_left() const {
  const int64_t first = std::max(epoch_, config_.train.pretrain), until = config_.mining.until;
  const int64_t end = until == 0 ? epochs() : std::min(epochs(), config_.train.pretrain + until);
  const auto mined_epochs = miner_ == nullptr ? 0.0 : static_cast<double>(std::max<int64_t>(0, end - first));
  const auto id = static_cast<double>(data_.train_rows.size());
  double features = 0;
  if (miner_ && miner_->uses_features()) features += static_cast<double>(config_.mining.pool);
  if (miner_ && miner_->uses_posterior()) features += id + static_cast<double>(select_count());
  WorkLeft work;
  work.images = mined_epochs * features;
  work.steps = static_cast<double>((epochs() - epoch_) * batches() - batch_);
  const double a_step = id / static_cast<double>(batches());  // ID images
  const double outliers = miner_ ? static_cast<double>(config_.train.outlier_batch) : 0;
  work.images_a_step = a_step * (static_cast<double>(objective_->views()) +
                                 outliers / static_cast<double>(config_.train.batch));
  return work;
}

Replay Trainer::new_step() {
  return {[this](const std::vector<at::Tensor>& batch) { learn(batch[0], batch[1], batch[2]); }, device_};
}

// Nothing is left of pre-training but the weights; steps have another shape from here on.
void Trainer::start_stage() {
  optimiser_.reset();
  step_ = new_step();
}

Posterior Trainer::timed_posterior() {
  const Stopwatch watch(queue_seconds_);
  return posterior();
}

bool Trainer::weights_finite() const {
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter] : network_->parameters()) {
    if (!std::isfinite(parameter.sum().item<double>())) return false;
  }
  return true;
}

// Returns false if it was stopped before the epoch's last batch.
bool Trainer::train_epoch(const std::vector<Crop>& id, const std::function<bool()>& stop) {
  const Stopwatch watch(train_seconds_);
  Stream stream(config_.seed, "outlier-order", epoch_);
  const auto outlier_order = permutation(static_cast<int64_t>(mined_.size()), stream);
  Progress bar("training", batches() - batch_, "batches");
  forecast_.begin_steps();
  const Precision precision(*network_, bf16_);
  network_->train(true);
  while (batch_ < batches()) {
    train_batch(id, outlier_order);
    ++batch_;
    bar.advance(1, [this] { return figures_text(averages()); });
    if (stop()) break;
    forecast_.add_step(work_left());
  }
  if (!std::isfinite(sums_[kLoss].item<double>()) || !weights_finite()) {
    throw Error(
        fmt::format("epoch {}", epoch_ + 1), "the training diverged: loss or weights are not finite",
        epoch_ == 0 ? "lower train.learning_rate" : "lower train.learning_rate; the last checkpoint is kept");
  }
  return batch_ == batches();
}

// One step on a mixed batch.
void Trainer::train_batch(const std::vector<Crop>& id, const std::vector<int64_t>& outlier_order) {
  const int64_t batch = config_.train.batch, first = batch_ * batch,
                count = std::min<int64_t>(batch, static_cast<int64_t>(id.size()) - first);
  const std::vector<Crop> id_batch = views(&id[first], count);
  const std::vector<Crop> outliers = outlier_batch(count, outlier_order);
  at::Tensor images = id_images_.cut(id_batch.data(), static_cast<int64_t>(id_batch.size()), data_.id_cut);
  if (!outliers.empty()) {
    images = at::cat({images, outlier_images_.cut(outliers.data(), static_cast<int64_t>(outliers.size()),
                                                  data_.outlier_cut)});
  }
  const auto to_device = [&](const at::Tensor& x) { return x.to(device_, /*non_blocking=*/true); };
  optimiser_.set_rate(rate(batch_));
  step_({images, to_device(labels_of(id_batch)), to_device(chance(static_cast<int64_t>(outliers.size())))});
}

// What a step does on the device, the first images being ID images with these labels, the others outliers:
// BatchNorm sees both together. Nothing in it waits for the device.
void Trainer::learn(const at::Tensor& images, const at::Tensor& labels, const at::Tensor& chance) {
  const int64_t id_count = labels.size(0);
  const at::Tensor outputs = network_->logits(network_->features(images));
  const at::Tensor id_outputs = outputs.narrow(0, 0, id_count),
                   outlier_outputs = outputs.narrow(0, id_count, outputs.size(0) - id_count);
  const Loss loss = (*objective_)(id_outputs, labels, outlier_outputs, chance);
  loss.total.backward();
  optimiser_.step();
  network_->after_step();
  add_to_sums(loss, id_outputs.detach(), labels, outlier_outputs.detach());
}

// The crops of `count` ID images, as often as the objective wants to see each.
std::vector<Crop> Trainer::views(const Crop* id, int64_t count) const {
  std::vector<Crop> crops(id, id + count);
  for (int64_t view = 1; view < objective_->views(); ++view) {
    for (int64_t i = 0; i < count; ++i) {
      crops.push_back({id[i].image, Stream(id[i].seed, "view", view).bits64()});
    }
  }
  return crops;
}

// As many outliers as belong to `count` ID images, round the mined set.
std::vector<Crop> Trainer::outlier_batch(int64_t count, const std::vector<int64_t>& order) const {
  std::vector<Crop> crops;
  if (mined_.empty()) return crops;
  const int64_t batch = config_.train.batch, outlier_batch = config_.train.outlier_batch;
  for (int64_t i = 0; i < (count * outlier_batch + batch - 1) / batch; ++i) {
    crops.push_back(mined_[order[(batch_ * outlier_batch + i) % order.size()]]);
  }
  return crops;
}

at::Tensor Trainer::labels_of(const std::vector<Crop>& crops) const {
  std::vector<int64_t> rows;
  for (const Crop& crop : crops) rows.push_back(crop.image);
  return data_.id.labels.index_select(0, at::tensor(rows, at::kLong));
}

at::Tensor Trainer::chance(int64_t count) const {
  Stream stream(config_.seed, "chance", epoch_, batch_);
  at::Tensor draws = at::empty({count});
  for (int64_t i = 0; i < count; ++i) draws.data_ptr<float>()[i] = static_cast<float>(stream.uniform());
  return draws;
}

void Trainer::add_to_sums(const Loss& loss, const at::Tensor& id_outputs, const at::Tensor& labels,
                          const at::Tensor& outlier_outputs) {
  const at::NoGradGuard no_grad;
  const auto logits = [&](const at::Tensor& outputs) {
    return network_->classifies() ? outputs.narrow(1, 0, class_count()) : outputs;
  };
  const auto n = static_cast<double>(id_outputs.size(0));
  const std::vector<at::Tensor> row = {
      loss.total * n,
      loss.classification * n,
      loss.regularisation * n,
      energy(logits(id_outputs)).sum(),
      energy(logits(outlier_outputs)).sum(),
      (logits(id_outputs).argmax(1) == labels).sum().to(at::kFloat),
      at::full({}, n, id_outputs.options()),
      at::full({}, static_cast<double>(outlier_outputs.size(0)), id_outputs.options())};
  sums_ += at::stack(row).to(at::kDouble);
}

int64_t Trainer::class_count() const { return static_cast<int64_t>(data_.id.class_names.size()); }

at::Tensor Trainer::features(const DeviceImages& images, const Augmentation& augmentation, const Crop* crops,
                             int64_t count, void (*each_block)()) const {
  const at::NoGradGuard no_grad;
  const Precision precision(*network_, bf16_);
  network_->train(false);
  std::vector<at::Tensor> parts;
  int64_t first = 0;
  do {
    each_block();
    parts.push_back(
        network_->features(images.cut(crops + first, std::min(block_, count - first), augmentation)));
  } while ((first += block_) < count);
  return parts.size() == 1 ? parts[0] : at::cat(parts);
}

FeatureExtractor Trainer::extractor(void (*each_block)()) const {
  return {[this, each_block](const Crop* crops, int64_t count) {
            return features(id_images_, data_.id_cut, crops, count, each_block);
          },
          [this, each_block](const Crop* crops, int64_t count) {
            return features(outlier_images_, data_.outlier_cut, crops, count, each_block);
          }};
}

std::optional<double> Trainer::validation_accuracy() const {
  if (data_.validation_rows.empty() || !network_->classifies()) return std::nullopt;
  std::vector<Crop> crops;
  for (int64_t row : data_.validation_rows) crops.push_back({row, 0});
  const auto count = static_cast<int64_t>(crops.size());
  const at::Tensor labels = labels_of(crops);
  int64_t correct = 0;
  const at::NoGradGuard no_grad;
  network_->train(false);
  for (int64_t first = 0; first < count; first += config_.train.batch) {
    const int64_t size = std::min(config_.train.batch, count - first);
    const at::Tensor images = id_images_.cut(&crops[first], size, plain(config_.data.size));
    const at::Tensor logits = network_->logits(network_->features(images));
    correct += (logits.narrow(1, 0, class_count()).argmax(1).cpu() == labels.narrow(0, first, size))
                   .sum()
                   .item<int64_t>();
  }
  return static_cast<double>(correct) / static_cast<double>(count);
}

// Over the batches of the epoch so far.
EpochReport Trainer::averages() const {
  const at::Tensor sums = sums_.cpu();
  const auto mean = [&](Sum sum, Sum count) { return sums[sum].item<double>() / sums[count].item<double>(); };
  EpochReport report;
  report.epoch = epoch_ + 1;
  report.learning_rate = rate(batch_ - 1);
  report.loss = mean(kLoss, kIds);
  report.classification_loss = mean(kClassification, kIds);
  report.regularisation = mean(kRegularisation, kIds);
  report.id_energy = mean(kIdEnergy, kIds);
  if (!mined_.empty()) report.outlier_energy = mean(kOutlierEnergy, kOutliers);
  if (network_->classifies()) report.train_accuracy = mean(kCorrect, kIds);
  report.mining = diagnostics_;
  report.mine_seconds = mine_seconds_;
  report.train_seconds = train_seconds_;
  report.queue_seconds = queue_seconds_;
  return report;
}

void Trainer::store(TensorFile& file) const {
  store_weights(*network_, "network.", file);
  for (const auto& [name, velocity] : optimiser_.velocities()) file.tensors["velocity." + name] = velocity;
  store_crops(mined_, "mined", file);
  queue_.store(file);
  file.tensors["sums"] = sums_;
  file.tensors["seconds"] = at::tensor({mine_seconds_, train_seconds_, queue_seconds_}, at::kDouble);
  file.tensors["position"] = at::tensor(std::vector<int64_t>{epoch_, batch_}, at::kLong);
  if (diagnostics_)
    file.metadata["diagnostics"] =
        to_json(*diagnostics_).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void Trainer::load(const TensorFile& file) {
  load_weights(*network_, "network.", file);
  for (const auto& [name, velocity] : optimiser_.velocities())
    load_tensor(file, "velocity." + name, velocity);
  const int64_t outliers = data_.outliers.pixels.defined() ? data_.outliers.size() : 0;
  mined_ = load_crops(file, "mined", outliers);
  queue_.load(file, outliers);
  load_tensor(file, "sums", sums_);
  const at::Tensor seconds = at::zeros({3}, at::kDouble), position = at::zeros({2}, at::kLong);
  load_tensor(file, "seconds", seconds);
  load_tensor(file, "position", position);
  mine_seconds_ = seconds[0].item<double>();
  train_seconds_ = seconds[1].item<double>();
  queue_seconds_ = seconds[2].item<double>();
  epoch_ = position[0].item<int64_t>();
  batch_ = position[1].item<int64_t>();
  if (epoch_ < 0 || batch_ < 0) throw Error(file.path, "tensor 'position' is negative", "train anew");
  if (file.metadata.count("diagnostics") > 0) {
    diagnostics_ = diagnostics_from(nlohmann::json::parse(file.text("diagnostics")));
  }
}

}  // namespace poem
