// ID images held out of training and adversarial copies of them: what scores choose their settings on, so
// that no OOD image is ever seen.
//
//   for_each_held_out(training, [&](const at::Tensor& pixels, const at::Tensor& attacked) { … });
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>

#include "poem/scores.h"

namespace poem {

constexpr int64_t kGradientImages = 64;  // at a time: activations are kept for the gradient

// Up to 500 of the images, evenly over all, kGradientImages at a time; n×C×H×W on the network's device. The
// copies are a step of FGSM of 0.05 (of pixels in 0 … 1) away from the class that the network predicts.
void for_each_held_out(const Training& training,
                       const std::function<void(const at::Tensor&, const at::Tensor&)>& use);

}  // namespace poem
