// A DenseNet-BC block and the BatchNorm, ReLU and average pooling behind it, in bfloat16 on a GPU with
// float32 weights and statistics; with gradients in training mode. Only in builds with CUDA.
//
//   if (cuda::fits(layers, x)) y = cuda::dense_block(layers, norm, x, {2, 2}, training);
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace poem::cuda {

// A BatchNorm's parameters and running statistics: float32, one number per channel.
struct NormTensors {
  at::Tensor weight, bias, running_mean, running_variance;
};

// A layer: norm1, ReLU, 1×1 convolution, norm2, ReLU, 3×3 convolution. The weights are float32, output ×
// input channels × height × width, channels last.
struct LayerTensors {
  NormTensors norm1;
  at::Tensor conv1;
  NormTensors norm2;
  at::Tensor conv2;
};

// Whether the kernels can compute this block: growth 12, and the channels and pixels that tensor cores need.
bool fits(const std::vector<LayerTensors>& layers, const at::Tensor& x);

struct Window {
  int64_t height, width;
};

// x: bfloat16 n×C×H×W, channels last. Returns the averages over windows, n×C'×H/h×W/w: bfloat16 and channels
// last, or float32 if the window is the whole image.
at::Tensor dense_block(const std::vector<LayerTensors>& layers, const NormTensors& norm, const at::Tensor& x,
                       Window window, bool training);

}  // namespace poem::cuda
