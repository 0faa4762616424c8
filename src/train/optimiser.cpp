#include "train/optimiser.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "net/weights.h"

namespace poem {

Nesterov::Nesterov(const Network& network, double momentum, double weight_decay, double backbone_rate)
    : momentum_(momentum), weight_decay_(weight_decay), backbone_rate_(backbone_rate) {
  for (const auto& [name, parameter] : network.parameters()) {
    if (!parameter.requires_grad()) continue;
    if (backbone_rate != 1 && !in_head(name)) slower_.push_back(parameters_.size());
    parameters_.push_back(parameter);
    velocity_.push_back(at::zeros_like(parameter));
    velocities_.emplace_back(name, velocity_.back());
  }
  if (!parameters_[0].is_cpu()) device_rate_ = at::zeros({}, parameters_[0].options().requires_grad(false));
}

void Nesterov::set_rate(double rate) {
  rate_ = rate;
  if (device_rate_.defined()) device_rate_.fill_(rate);
}

void Nesterov::step() {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  gradients.reserve(parameters_.size());
  for (const auto& parameter : parameters_) gradients.push_back(parameter.grad());
  at::_foreach_add_(gradients, parameters_, weight_decay_);
  at::_foreach_mul_(velocity_, momentum_);
  at::_foreach_add_(velocity_, gradients);
  at::_foreach_add_(gradients, velocity_, momentum_);
  std::vector<at::Tensor> slower;
  for (const size_t i : slower_) slower.push_back(gradients[i]);
  if (!slower.empty()) at::_foreach_mul_(slower, backbone_rate_);
#ifdef POEM_HAS_CUDA
  if (device_rate_.defined()) {
    at::_foreach_mul_(gradients, device_rate_);
    at::_foreach_sub_(parameters_, gradients);
  } else
#endif
    at::_foreach_add_(parameters_, gradients, -rate_);
  for (auto& parameter : parameters_) parameter.mutable_grad().reset();
}

void Nesterov::reset() {
  for (at::Tensor& velocity : velocity_) velocity.zero_();
}

double learning_rate(const TrainSettings& settings, int64_t epochs, double progress) {
  const double warmup = static_cast<double>(settings.warmup) / static_cast<double>(epochs);
  if (progress < warmup) {
    constexpr double kStart = 0.01;
    return settings.learning_rate * (kStart + (1 - kStart) * progress / warmup);
  }
  if (settings.schedule == Schedule::kCosine)
    return settings.learning_rate * 0.5 * (1 + std::cos(M_PI * progress));
  double rate = settings.learning_rate;
  for (const double milestone : settings.milestones) {
    if (progress >= milestone) rate *= settings.drop;
  }
  return rate;
}

}  // namespace poem
