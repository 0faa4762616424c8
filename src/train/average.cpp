#include "train/average.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/interrupts.h"
#include "core/progress.h"
#include "net/layers.h"
#include "net/weights.h"
#include "poem/error.h"

namespace poem {
namespace {

constexpr const char* kPrefix = "average.";
constexpr const char* kUpdates = "average_updates";

}  // namespace

// A network may have other buffers too (net/density.cpp).
std::vector<at::Tensor> batch_norm_statistics(const Network& network) {
  std::vector<at::Tensor> statistics;
  for (const auto& [name, buffer] : network.buffers()) {
    if (name.find(".running_") != std::string::npos) statistics.push_back(buffer);
  }
  return statistics;
}

Average::Average(const Network& network, double decay) : network_(network), decay_(decay) {
  for (const auto& [name, parameter] : network.parameters()) {
    if (!parameter.requires_grad()) continue;
    names_.push_back(name);
    weights_.push_back(parameter);
    average_.push_back(parameter.detach().clone());
  }
}

void Average::update() {
  const at::NoGradGuard no_grad;
  const auto t = static_cast<double>(updates_++);
  const double d = std::min(decay_, (1 + t) / (10 + t));
  at::_foreach_mul_(average_, d);
  at::_foreach_add_(average_, weights_, 1 - d);
}

void Average::restart() {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < average_.size(); ++i) average_[i].copy_(weights_[i]);
  updates_ = 0;
}

std::shared_ptr<Network> Average::network() const {
  const at::NoGradGuard no_grad;
  TensorFile file;
  store_weights(network_, "", file);
  for (size_t i = 0; i < names_.size(); ++i) file.tensors[names_[i]] = average_[i];
  std::shared_ptr<Network> copy = make_network(network_.spec(), Weights(file, ""));
  copy->to(average_.front().device());
  return copy;
}

void Average::store(TensorFile& file) const {
  for (size_t i = 0; i < names_.size(); ++i) file.tensors[kPrefix + names_[i]] = average_[i];
  file.tensors[kUpdates] = at::tensor(std::vector<int64_t>{updates_}, at::kLong);
}

void Average::load(const TensorFile& file) {
  for (size_t i = 0; i < names_.size(); ++i) load_tensor(file, kPrefix + names_[i], average_[i]);
  const at::Tensor updates = at::zeros({1}, at::kLong);
  load_tensor(file, kUpdates, updates);
  updates_ = updates.item<int64_t>();
  if (updates_ < 0)
    throw Error(file.path, fmt::format("tensor '{}' is impossible: {}", kUpdates, updates_), "train again");
}

// A batch moves statistics of 0 to kMomentum times its own.
void take_batch_norm(Network& network, int64_t batches, const std::function<at::Tensor(int64_t)>& images) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> statistics = batch_norm_statistics(network);
  if (statistics.empty()) return;
  std::vector<at::Tensor> sums;
  for (const at::Tensor& statistic : statistics) sums.push_back(at::zeros_like(statistic, at::kDouble));
  network.train(true);
  Progress bar("statistics of BatchNorm", batches, "batches");
  for (int64_t batch = 0; batch < batches; ++batch) {
    stop_if_interrupted();
    for (const at::Tensor& statistic : statistics) statistic.zero_();
    network.features(images(batch));
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += statistics[i];
    bar.advance(1);
  }
  for (size_t i = 0; i < sums.size(); ++i)
    statistics[i].copy_(sums[i] / (BatchNorm::kMomentum * static_cast<double>(batches)));
  network.train(false);
}

}  // namespace poem
