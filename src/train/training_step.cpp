#include "train/training_step.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "net/weights.h"

namespace poem {
namespace {

// All that the loss has gradients of: the parameters, and what else a network learns (net/density.cpp).
std::vector<at::Tensor> leaves_of(const Network& network) {
  std::vector<at::Tensor> leaves;
  for (const Network::Named& tensors : {network.parameters(), network.buffers()}) {
    for (const auto& [name, tensor] : tensors) {
      if (tensor.requires_grad()) leaves.push_back(tensor);
    }
  }
  return leaves;
}

}  // namespace

TrainingStep::TrainingStep(Network& network, const Objective& objective, const TrainSettings& settings,
                           int64_t classes, at::Device device, const Team& team)
    : network_(network),
      objective_(objective),
      classes_(classes),
      device_(device),
      team_(team),
      gradients_(team, leaves_of(network)),
      optimiser_(network, settings.momentum, settings.weight_decay, settings.backbone_rate),
      step_(recorded()),
      sums_(at::zeros({kSums}, at::TensorOptions(at::kDouble).device(device))) {
  if (settings.average > 0) average_.emplace(network, settings.average);
}

Replay TrainingStep::recorded() {
  // A step that waits for other ranks is not recorded as a CUDA graph, as on the CPU.
  return {[this](const std::vector<at::Tensor>& batch) {
            learn({batch[0], batch[1], batch[2]});
          },
          team_.size() > 1 ? at::Device(at::kCPU) : device_};
}

void TrainingStep::operator()(const MixedBatch& batch, double rate) {
  optimiser_.set_rate(rate);
  step_({batch.images, batch.labels, batch.chance});
  if (average_) average_->update();
}

void TrainingStep::restart() {
  optimiser_.reset();
  if (average_) average_->restart();
  step_ = recorded();
}

// What a step does on the device. Nothing in it waits for the device. Every rank of a team computes the loss
// of the whole batch, from the outputs of all, and the gradient of its own rows.
void TrainingStep::learn(const MixedBatch& batch) {
  const int64_t id_count = batch.labels.size(0);
  const at::Tensor outputs =
      team_.rows(network_.logits(network_.features(batch.images)), id_count + batch.chance.size(0));
  const at::Tensor id_outputs = outputs.narrow(0, 0, id_count),
                   outlier_outputs = outputs.narrow(0, id_count, outputs.size(0) - id_count);
  const Loss loss = objective_(id_outputs, batch.labels, outlier_outputs, batch.chance);
  loss.total.backward();
  gradients_.finish();
  optimiser_.step();
  network_.after_step();
  add_to_sums(loss, id_outputs.detach(), batch.labels, outlier_outputs.detach());
}

void TrainingStep::add_to_sums(const Loss& loss, const at::Tensor& id_outputs, const at::Tensor& labels,
                               const at::Tensor& outlier_outputs) {
  const at::NoGradGuard no_grad;
  const auto logits = [&](const at::Tensor& outputs) {
    return network_.classifies() ? outputs.narrow(1, 0, classes_) : outputs;
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

bool TrainingStep::finite() const {
  const at::NoGradGuard no_grad;
  if (!std::isfinite(sums_[kLoss].item<double>())) return false;
  for (const auto& [name, parameter] : network_.parameters()) {
    if (!std::isfinite(parameter.sum().item<double>())) return false;
  }
  return true;
}

void TrainingStep::report(EpochReport& figures) const {
  const at::Tensor sums = sums_.cpu();
  const auto sum = [&](Sum which) { return sums[which].item<double>(); };
  figures.loss = sum(kLoss) / sum(kIds);
  figures.classification_loss = sum(kClassification) / sum(kIds);
  figures.regularisation = sum(kRegularisation) / sum(kIds);
  figures.id_energy = sum(kIdEnergy) / sum(kIds);
  if (sum(kOutliers) > 0) figures.outlier_energy = sum(kOutlierEnergy) / sum(kOutliers);
  if (network_.classifies()) figures.train_accuracy = sum(kCorrect) / sum(kIds);
}

void TrainingStep::clear_sums() { sums_.zero_(); }

void TrainingStep::store(TensorFile& file) const {
  for (const auto& [name, velocity] : optimiser_.velocities()) file.tensors["velocity." + name] = velocity;
  if (average_) average_->store(file);
  file.tensors["sums"] = sums_;
}

void TrainingStep::load(const TensorFile& file) {
  for (const auto& [name, velocity] : optimiser_.velocities())
    load_tensor(file, "velocity." + name, velocity);
  if (average_) average_->load(file);
  load_tensor(file, "sums", sums_);
}

}  // namespace poem
