// Stochastic gradient descent with Nesterov momentum and weight decay, and the schedule of its learning rate.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "poem/config.h"
#include "poem/network.h"

namespace poem {

class Nesterov {
 public:
  // `backbone_rate`: factor on the rate of all but the last layer. Frozen parameters are left out.
  Nesterov(const Network& network, double momentum, double weight_decay, double backbone_rate = 1);

  // Takes the gradients of the last backward() and clears them:
  //   g ← ∇ + weight_decay·p;  v ← momentum·v + g;  p ← p − rate·(g + momentum·v)
  void step();
  // The rate of the steps from now on. On a GPU it is a tensor there, so that a recorded step
  // (train/replay.h) sees it.
  void set_rate(double rate);

  void reset();  // as if no step had been taken

  // v of every parameter that is trained, named as the parameters are.
  const Network::Named& velocities() const { return velocities_; }

 private:
  std::vector<at::Tensor> parameters_, velocity_;
  Network::Named velocities_;
  double momentum_, weight_decay_, backbone_rate_, rate_ = 0;
  std::vector<size_t> slower_;  // the parameters with backbone_rate_, if that is not 1
  at::Tensor device_rate_;      // undefined on the CPU
};

// The rate of one step of a training of so many epochs. `progress` is the share of its steps already done,
// 0 … 1.
double learning_rate(const TrainSettings& settings, int64_t epochs, double progress);

}  // namespace poem
