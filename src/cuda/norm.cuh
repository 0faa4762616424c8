// BatchNorm inside the kernels: statistics of a channel, the forward pass as x · scale + shift, and the
// part of the backward pass that is the same for all pixels.
//
//   const Affine norm1 = affine(layer.norm1, channel);
//   const float y = fmaxf(x * norm1.scale + norm1.shift, 0.0f);  // relu(norm1(x))
#pragma once
#include "cuda/dense.h"
#include "cuda/tensor_core.cuh"

namespace poem::cuda {

constexpr float kEpsilon = 1e-5f;

struct Moments {
  float mean, inverse_deviation;
};
__device__ inline Moments moments(const Norm& norm, int channel) {
  if (norm.count == 0) return {norm.mean[channel], rsqrtf(norm.variance[channel] + kEpsilon)};
  const float mean = static_cast<float>(norm.sums.x[channel]) / norm.count,
              mean_square = static_cast<float>(norm.sums.x_squared[channel]) / norm.count;
  return {mean, rsqrtf(fmaxf(mean_square - mean * mean, 0.0f) + kEpsilon)};
}

struct Affine {
  float scale, shift;
};
__device__ inline Affine affine(const Norm& norm, int channel) {
  const Moments m = moments(norm, channel);
  const float scale = norm.weight[channel] * m.inverse_deviation;
  return {scale, norm.bias[channel] - m.mean * scale};
}

// BatchNorm's backward pass for n pixels, with g the gradient of its output, γ its weight, σ the deviation
// and x̂ = (x − mean) / σ:
//
//   gradient of x = γ/σ · g − γ/σ · (Σg)/n − γ/σ · x̂ · (Σg·x̂)/n
//
// The gradient buffer holds the first term, added up over all BatchNorms that read the channel. A Correction
// is the sum of their other two terms, written as x · slope + constant.
struct Correction {
  float slope, constant;
};
__device__ inline Correction correction(const NormReaders& readers, int channel) {
  const Moments m = moments(readers.statistics, channel);
  float mean = 0, slope = 0;
#pragma unroll 4
  for (int i = 0; i < readers.count; ++i) {
    const float factor = readers.weight[i][channel] * m.inverse_deviation / readers.statistics.count;
    mean += factor * static_cast<float>(readers.bias_gradient[i][channel]);
    slope += factor * static_cast<float>(readers.weight_gradient[i][channel]);
  }
  return {-slope * m.inverse_deviation, slope * m.inverse_deviation * m.mean - mean};
}

// relu(x · scale + shift) of two neighbouring channels. What lies behind the last channel of a row may be
// anything, NaN too: scale and shift are 0 there, and fmaxf(NaN, 0) is 0.
__device__ inline uint32_t activate(uint32_t pair, float scale0, float shift0, float scale1, float shift1) {
  return pack(fmaxf(low(pair) * scale0 + shift0, 0.0f), fmaxf(high(pair) * scale1 + shift1, 0.0f));
}
// The same of eight neighbouring channels.
__device__ inline uint4 activate(const uint4& x, const float (&scale)[8], const float (&shift)[8]) {
  return {activate(x.x, scale[0], shift[0], scale[1], shift[1]),
          activate(x.y, scale[2], shift[2], scale[3], shift[3]),
          activate(x.z, scale[4], shift[4], scale[5], shift[5]),
          activate(x.w, scale[6], shift[6], scale[7], shift[7])};
}

}  // namespace poem::cuda
