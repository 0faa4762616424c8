// Averaged weights: the exponential moving average of a network's weights over the steps of a training, and
// the network that has them.
//
//   Average average(*network, /*decay=*/0.999);
//   for (…) { step(); average.update(); }
//   const std::shared_ptr<Network> averaged = average.network();
//   take_batch_norm(*averaged, 100, [&](int64_t i) { return batches[i].images; });
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/safetensors.h"
#include "poem/network.h"

namespace poem {

class Average {
 public:
  // `network` must outlive it. The average starts at the network's weights. Frozen weights have none.
  Average(const Network& network, double decay);

  // a ← d·a + (1 − d)·w with d = min(decay, (1 + t) / (10 + t)) after t updates, so that the first weights
  // are soon forgotten. On a GPU it runs after the recorded step (train/replay.h), not in it: d changes.
  void update();

  void restart();  // as if no step had been taken, at the weights of now

  // A copy of the network with the averaged weights. All else, such as BatchNorm's statistics, is the
  // network's own.
  std::shared_ptr<Network> network() const;

  void store(TensorFile& file) const;
  void load(const TensorFile& file);

 private:
  const Network& network_;
  const double decay_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> weights_, average_;
  int64_t updates_ = 0;  // t
};

// BatchNorm's running statistics, all of them.
std::vector<at::Tensor> batch_norm_statistics(const Network& network);

// Sets BatchNorm's running statistics to the means, over so many batches, of what a batch has: its means and
// its unbiased variances per channel. `images` gives the images of a batch, on the network's device.
void take_batch_norm(Network& network, int64_t batches, const std::function<at::Tensor(int64_t)>& images);

}  // namespace poem
