// The layers that backbones consist of: tensors that Backbone creates and owns, and the call that applies
// them. A copy shares its tensors.
//
//   x = norm(conv(x), training()).relu_();
#pragma once
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>

#include "dist/batch_norm.h"

namespace poem {

// LibTorch convolves a single small image by a product of matrices, through BLAS and its threads. In
// inference oneDNN does it in half the time. For no images LibTorch wants weights in the usual order.
inline at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {},
                           int64_t stride = 1, int64_t padding = 0) {
  const bool direct = x.is_cpu() && x.scalar_type() == at::kFloat && x.size(0) > 0 &&
                      !at::GradMode::is_enabled() && at::hasMKLDNN();
  if (direct) return at::mkldnn_convolution(x, weight, bias, {padding, padding}, {stride, stride}, {1, 1}, 1);
  return at::conv2d(x, x.size(0) > 0 ? weight : weight.contiguous(), bias, stride, padding);
}

struct Conv {  // without bias: a BatchNorm always follows
  at::Tensor weight;
  int64_t stride = 1;
  int64_t padding = 0;

  at::Tensor operator()(const at::Tensor& x) const { return convolve(x, weight, {}, stride, padding); }
};

struct BatchNorm {
  static constexpr double kMomentum = 0.1;
  static constexpr double kEpsilon = 1e-5;
  at::Tensor weight, bias, running_mean, running_var;

  // In training it normalises with the batch's statistics and moves the running ones towards them.
  at::Tensor operator()(const at::Tensor& x, bool training) const {
    if (const Team* team = GlobalBatchNorm::team(); team != nullptr && training)
      return batch_norm(x, weight, bias, running_mean, running_var, kMomentum, kEpsilon, *team);
    return at::batch_norm(x, weight, bias, running_mean, running_var, training, kMomentum, kEpsilon,
                          /*cudnn_enabled=*/true);
  }

  // With the running statistics BatchNorm is x · scale + shift, channel by channel.
  at::Tensor scale() const { return weight * at::rsqrt(running_var + kEpsilon); }
  at::Tensor shift(const at::Tensor& scale) const { return bias - running_mean * scale; }
};

struct Linear {
  at::Tensor weight, bias;

  at::Tensor operator()(const at::Tensor& x) const { return at::linear(x, weight, bias); }
};

}  // namespace poem
