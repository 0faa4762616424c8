// Gradients of losses with respect to the pixels. The network normalises inside, so they are gradients in
// pixel space, and a step of ε in pixels of 0 … 1 is one of 255 ε in the network's input.
//
//   const at::Tensor g = input_gradients(pixels, [&](const at::Tensor& x) { return {loss(x)}; })[0];
//   const at::Tensor moved = pixels - kPixelRange * 0.0014 * g.sign();
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace poem {

constexpr double kPixelRange = 255;

// ∂ Σ loss / ∂ pixels for each of the tensors that `losses` returns, from one forward pass; float32 like the
// pixels. Parameters get no gradient.
std::vector<at::Tensor> input_gradients(
    const at::Tensor& pixels, const std::function<std::vector<at::Tensor>(const at::Tensor&)>& losses);

}  // namespace poem
