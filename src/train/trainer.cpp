#include "train/trainer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/progress.h"
#include "core/random.h"
#include "core/runtime.h"
#include "data/pool.h"
#include "net/weights.h"
#include "train/report.h"

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

bool computes_in_bf16(const std::string& precision, at::Device device) {
  if (precision == "float32") return false;
  if (has_bf16(device)) return true;
  if (precision == "auto") return false;
  throw Error("train.precision", "is bf16, which only a GPU with bfloat16 does (compute capability 8.0)",
              "use --device cuda there, or set it to float32");
}

// Images whose features are taken at a time: as many as keep a GPU busy, or fit into a computer's memory.
int64_t images_a_block(int64_t size, at::Device device) {
  const int64_t pixels = device.is_cuda() ? 4096 * 1024 : 2000 * 1024;
  return std::max<int64_t>(1, pixels / (size * size));
}

std::shared_ptr<Network> build_network(const Config& config, const ImageSet& id, at::Device device) {
  NetworkSpec spec = config.network;
  spec.channels = id.channels();
  spec.pixels = id.height() * id.width();
  spec.classes = static_cast<int64_t>(id.class_names.size());
  std::shared_ptr<Network> network = make_network(spec, config.seed);
  network->to(device);
  network->use_bf16(computes_in_bf16(config.train.precision, device));
  return network;
}

}  // namespace

Trainer::Trainer(const Config& config, const TrainingData& data, at::Device device)
    : config_(config),
      data_(data),
      device_(device),
      network_(build_network(config, data.id, device)),
      objective_(make_objective(config.objective)),
      miner_(config.mining.miner == "none" ? nullptr : make_miner(config.mining.miner)),
      first_miner_(config.mining.miner == "none"
                       ? nullptr
                       : make_miner(config.mining.first == "random" ? "random" : config.mining.miner)),
      optimiser_(*network_, config.train.momentum, config.train.weight_decay),
      id_images_(data.id, device),
      outlier_images_(data.outliers, device),
      step_([this](const std::vector<at::Tensor>& batch) { learn(batch[0], batch[1]); }, device),
      queue_(config, network_->feature_count()),
      sums_(at::zeros({kSums}, at::TensorOptions(at::kDouble).device(device))) {
  if (miner_ == nullptr) return;
  const auto pool =
      draw_pool(data.outliers.size(), config.mining.pool, static_cast<uint64_t>(config.seed), 0);
  check_select(pool, select_count(), config.mining.max_per_image);  // now, not after the first scoring
}

// Algorithm 2. An epoch that was interrupted goes on at batch_ with the outliers it had.
bool Trainer::run(const std::function<void(const EpochReport&)>& report,
                  const std::function<void()>& checkpoint) {
  const auto seed = static_cast<uint64_t>(config_.seed);
  const FeatureExtractor extract = extractor();
  while (epoch_ < config_.train.epochs) {
    const std::vector<Crop> id = id_crops(data_, seed, epoch_);  // D_in, in this epoch's order
    if (batch_ == 0 && mines(epoch_)) {
      const Miner& miner = epoch_ == 0 ? *first_miner_ : *miner_;
      if (epoch_ == 0 && miner.uses_posterior()) calibrate_batch_norm(id);
      // P_t(w) = N(σ⁻² A⁻¹ Φy, A⁻¹), A = σ⁻² ΦΦᵀ + Σ⁻¹; the prior N(0, Σ) while the queue is empty.
      const Posterior posterior = this->posterior(extract);
      const Stopwatch watch(mine_seconds_);
      // D_pool: S outliers, anew every epoch.
      const std::vector<Crop> pool = draw_pool(data_.outliers.size(), config_.mining.pool, seed, epoch_);
      // w_t ~ P_t; D_out: the N of the pool with the largest Ĝ(x) = −|w_tᵀ φ(x)|.
      Mined mined = mine(
          miner,
          {pool, select_count(), config_.mining.max_per_image, extract.outliers, &posterior, seed, epoch_},
          mined_);
      mined_ = std::move(mined.crops);
      diagnostics_ = mined.diagnostics;
    }
    if (!train_epoch(id)) {  // one epoch of L_cls + β L_reg
      checkpoint();
      return false;
    }
    if (mines(epoch_ + 1) && miner_->uses_posterior()) {
      const Stopwatch watch(queue_seconds_);
      queue_.push(epoch_, id, mined_, extract);  // Q: the last epochs' φ(x); from it Φ and the posterior
    }
    report(summary());
    ++epoch_;
    batch_ = 0;
    diagnostics_.reset();
    sums_.zero_();
    mine_seconds_ = train_seconds_ = queue_seconds_ = 0;
    checkpoint();
    if (interrupted() && epoch_ < config_.train.epochs) return false;
  }
  network_->use_bf16(false);  // the detector computes in float32
  return true;
}

bool Trainer::mines(int64_t epoch) const {
  const int64_t last = config_.mining.until == 0 ? config_.train.epochs : config_.mining.until;
  return miner_ != nullptr && epoch < std::min(last, config_.train.epochs);
}

int64_t Trainer::select_count() const {
  if (config_.mining.select > 0) return config_.mining.select;
  const auto id = static_cast<int64_t>(data_.train_rows.size());
  return std::max<int64_t>(1, id * config_.train.outlier_batch / config_.train.batch);
}

int64_t Trainer::batches() const {
  return (static_cast<int64_t>(data_.train_rows.size()) + config_.train.batch - 1) / config_.train.batch;
}

double Trainer::rate(int64_t batch) const {
  const auto done = static_cast<double>(epoch_ * batches() + batch);
  return learning_rate(config_.train, done / static_cast<double>(config_.train.epochs * batches()));
}

// BatchNorm's running statistics start at 0 and 1, with which features explode through the layers: before the
// first scoring, a pass over the ID images in training mode sets them (several over few images: each batch
// moves them by a tenth).
void Trainer::calibrate_batch_norm(const std::vector<Crop>& id) {
  constexpr int64_t kLeast = 50;
  const Stopwatch watch(mine_seconds_);
  const at::NoGradGuard no_grad;
  network_->train(true);
  for (int64_t i = 0; i < std::max(batches(), kLeast); ++i) {
    const int64_t first = i % batches() * config_.train.batch;
    const int64_t count = std::min<int64_t>(config_.train.batch, static_cast<int64_t>(id.size()) - first);
    network_->features(id_images_.cut(&id[first], count, data_.id_cut));
  }
}

Posterior Trainer::posterior(const FeatureExtractor& extract) {
  const Stopwatch watch(queue_seconds_);
  return {queue_.statistics(data_, extract), config_.posterior};
}

bool Trainer::weights_finite() const {
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter] : network_->parameters()) {
    if (!std::isfinite(parameter.sum().item<double>())) return false;
  }
  return true;
}

// Returns false if Ctrl-C came before the epoch's last batch.
bool Trainer::train_epoch(const std::vector<Crop>& id) {
  const Stopwatch watch(train_seconds_);
  Stream stream(config_.seed, "outlier-order", epoch_);
  const auto outlier_order = permutation(static_cast<int64_t>(mined_.size()), stream);
  Progress bar(fmt::format("epoch {}/{}", epoch_ + 1, config_.train.epochs), batches() - batch_, "batches");
  network_->train(true);
  while (batch_ < batches()) {
    train_batch(id, outlier_order);
    ++batch_;
    bar.advance(1);
    if (interrupted()) break;
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
  const int64_t batch = config_.train.batch, outlier_batch = config_.train.outlier_batch;
  const int64_t first = batch_ * batch,
                count = std::min<int64_t>(batch, static_cast<int64_t>(id.size()) - first);
  std::vector<int64_t> rows;
  for (int64_t i = first; i < first + count; ++i) rows.push_back(id[i].image);
  const at::Tensor labels = data_.id.labels.index_select(0, at::tensor(rows, at::kLong));
  at::Tensor images = id_images_.cut(&id[first], count, data_.id_cut);
  if (!mined_.empty()) {  // as many outliers as belong to this many ID images, round the mined set
    std::vector<Crop> outliers;
    for (int64_t i = 0; i < (count * outlier_batch + batch - 1) / batch; ++i) {
      outliers.push_back(mined_[outlier_order[(batch_ * outlier_batch + i) % outlier_order.size()]]);
    }
    images = at::cat({images, outlier_images_.cut(outliers.data(), outliers.size(), data_.outlier_cut)});
  }
  optimiser_.set_rate(rate(batch_));
  step_({images, labels.to(device_, /*non_blocking=*/true)});
}

// What a step does on the device, the first images being ID images with these labels, the others outliers:
// BatchNorm sees both together. Nothing in it waits for the device.
void Trainer::learn(const at::Tensor& images, const at::Tensor& labels) {
  const int64_t count = labels.size(0);
  const at::Tensor logits = network_->logits(network_->features(images));
  const at::Tensor id_logits = logits.narrow(0, 0, count),
                   outlier_logits = logits.narrow(0, count, logits.size(0) - count);
  const Loss loss = (*objective_)(id_logits, labels, outlier_logits);
  loss.total.backward();
  optimiser_.step();

  const at::NoGradGuard no_grad;
  const auto n = static_cast<double>(count);
  const at::Tensor correct = (id_logits.argmax(1) == labels).sum();
  const std::vector<at::Tensor> row = {
      loss.total * n,
      loss.classification * n,
      loss.regularisation * n,
      energy(id_logits).sum(),
      energy(outlier_logits).sum(),
      correct.to(at::kFloat),
      at::full({}, n, logits.options()),
      at::full({}, static_cast<double>(outlier_logits.size(0)), logits.options())};
  sums_ += at::stack(row).to(at::kDouble);
}

at::Tensor Trainer::features(const DeviceImages& images, const Augmentation& augmentation, const Crop* crops,
                             int64_t count) const {
  const at::NoGradGuard no_grad;
  network_->train(false);
  const int64_t block = images_a_block(augmentation.size, device_);
  std::vector<at::Tensor> parts;
  int64_t first = 0;
  do {
    parts.push_back(
        network_->features(images.cut(crops + first, std::min(block, count - first), augmentation)));
  } while ((first += block) < count);
  return parts.size() == 1 ? parts[0] : at::cat(parts);
}

FeatureExtractor Trainer::extractor() const {
  return {
      [this](const Crop* crops, int64_t count) { return features(id_images_, data_.id_cut, crops, count); },
      [this](const Crop* crops, int64_t count) {
        return features(outlier_images_, data_.outlier_cut, crops, count);
      }};
}

std::optional<double> Trainer::validation_accuracy() const {
  if (data_.validation_rows.empty()) return std::nullopt;
  std::vector<Crop> crops;
  for (int64_t row : data_.validation_rows) crops.push_back({row, 0});
  const auto count = static_cast<int64_t>(crops.size());
  const at::Tensor labels = data_.id.labels.index_select(0, at::tensor(data_.validation_rows, at::kLong));
  int64_t correct = 0;
  for (int64_t first = 0; first < count; first += config_.train.batch) {
    const int64_t size = std::min(config_.train.batch, count - first);
    const at::NoGradGuard no_grad;
    const at::Tensor logits =
        network_->logits(features(id_images_, plain(config_.data.size), &crops[first], size));
    correct += (logits.argmax(1).cpu() == labels.narrow(0, first, size)).sum().item<int64_t>();
  }
  return static_cast<double>(correct) / static_cast<double>(count);
}

EpochReport Trainer::summary() const {
  const at::Tensor sums = sums_.cpu();
  const auto mean = [&](Sum sum, Sum count) { return sums[sum].item<double>() / sums[count].item<double>(); };
  EpochReport report;
  report.epoch = epoch_ + 1;
  report.learning_rate = rate(batches() - 1);
  report.loss = mean(kLoss, kIds);
  report.classification_loss = mean(kClassification, kIds);
  report.regularisation = mean(kRegularisation, kIds);
  report.id_energy = mean(kIdEnergy, kIds);
  if (!mined_.empty()) report.outlier_energy = mean(kOutlierEnergy, kOutliers);
  report.train_accuracy = mean(kCorrect, kIds);
  report.validation_accuracy = validation_accuracy();
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
  if (diagnostics_) file.metadata["diagnostics"] = to_json(*diagnostics_).dump();
}

void Trainer::load(const TensorFile& file) {
  load_weights(*network_, "network.", file);
  for (const auto& [name, velocity] : optimiser_.velocities())
    load_tensor(file, "velocity." + name, velocity);
  mined_ = load_crops(file, "mined");
  queue_.load(file);
  load_tensor(file, "sums", sums_);
  const at::Tensor seconds = file.tensor("seconds"), position = file.tensor("position");
  mine_seconds_ = seconds[0].item<double>();
  train_seconds_ = seconds[1].item<double>();
  queue_seconds_ = seconds[2].item<double>();
  epoch_ = position[0].item<int64_t>();
  batch_ = position[1].item<int64_t>();
  if (file.metadata.count("diagnostics") > 0) {
    diagnostics_ = diagnostics_from(nlohmann::json::parse(file.text("diagnostics")));
  }
}

}  // namespace poem
