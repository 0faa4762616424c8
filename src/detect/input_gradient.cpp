#include "detect/input_gradient.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace poem {

std::vector<at::Tensor> input_gradients(
    const at::Tensor& pixels, const std::function<std::vector<at::Tensor>(const at::Tensor&)>& losses) {
  const at::AutoGradMode with_gradient(true);
  const at::Tensor x = pixels.detach().to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  x.requires_grad_();
  const std::vector<at::Tensor> all = losses(x);
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& loss : all) {
    const bool more = gradients.size() + 1 < all.size();
    loss.sum().backward({}, /*retain_graph=*/more, /*create_graph=*/false, at::TensorList(x));
    gradients.push_back(x.grad());
    x.mutable_grad() = at::Tensor();
  }
  return gradients;
}

}  // namespace poem
