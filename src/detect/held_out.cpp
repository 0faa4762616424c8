#include "detect/held_out.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "core/interrupts.h"
#include "detect/image_blocks.h"
#include "detect/input_gradient.h"
#include "poem/network.h"

namespace poem {
namespace {

constexpr double kAttack = 0.05;
constexpr int64_t kMost = 500;

at::Tensor attacked(Network& network, const at::Tensor& pixels, int64_t classes) {
  const auto loss = [&](const at::Tensor& x) -> std::vector<at::Tensor> {
    return {-network.logits(network.features(x)).narrow(1, 0, classes).log_softmax(1).amax(1)};
  };
  const at::Tensor direction = input_gradients(pixels, loss)[0].sign();
  return (pixels + kPixelRange * kAttack * direction).clamp(0, kPixelRange);
}

}  // namespace

void for_each_held_out(const Training& training,
                       const std::function<void(const at::Tensor&, const at::Tensor&)>& use) {
  Network& network = *training.network;
  const int64_t count = training.held_out.size();
  const int64_t taken = std::min(count, kMost);
  std::vector<int64_t> some;  // evenly: they may lie class by class
  for (int64_t i = 0; i < taken; ++i) some.push_back(i * count / taken);
  const ImageSet few = subset(training.held_out, some);
  const at::Device device = network.parameters().front().second.device();
  for_each_block(few, training.size, device, [&](const at::Tensor& block) {
    for (const at::Tensor& pixels : block.split(kGradientImages)) {
      stop_if_interrupted();
      use(pixels, attacked(network, pixels, training.classes));
    }
  });
}

}  // namespace poem
