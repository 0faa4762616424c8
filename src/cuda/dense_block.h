// A DenseNet-BC block and the BatchNorm, ReLU and average pooling behind it, in bfloat16 on a GPU with
// float32 weights and statistics; with gradients in training mode. Only in builds with CUDA.
//
//   if (cuda::fits(layers, x)) y = cuda::dense_block(layers, norm, x, {2, 2}, training);
#pragma once
#include <vector>

#include "net/dense_layer.h"

namespace poem::cuda {

// Whether the kernels can do this block: growth 12, and what tensor cores ask of channels and pixels.
bool fits(const std::vector<DenseLayer>& layers, const at::Tensor& x);

struct Window {
  int64_t height, width;
};

// x: bfloat16 n×C×H×W, channels last. Returns the averages over windows, n×C'×H/h×W/w: bfloat16 and channels
// last, float32 where the window is the whole image.
at::Tensor dense_block(const std::vector<DenseLayer>& layers, const BatchNorm& norm, const at::Tensor& x,
                       Window window, bool training);

}  // namespace poem::cuda
