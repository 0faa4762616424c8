// What is done once per pass for all layers of a block, and without pixels: rounding the weights to
// bfloat16 in the order in which the kernels read them, and moving the running statistics towards the
// batch's.
//
//   round_weights    conv1, 48 × C           -> conv1, 48 × C rounded up to a multiple of 32 with zeros
//                    conv2, 12 × 3 × 3 × 48  -> conv2, 16 × 3 × 3 × 48, the last 4 outputs zeros
//                                            -> conv2_transposed, 48 × 3 × 3 × 16, the same values
//   update_running   Σx and Σx², C each      -> running mean and variance, C each
//
// There is no tile, but an order of channels. Of 16 channels, a product gives each lane four: 2·member, the
// next one, and these two plus 8 (cuda/tensor_core.cuh). Both forms of conv2 have these four side by side in
// their last dimension, so that a lane loads them at once:
//
//   position   0  1  2  3    4  5  6  7    8  9 10 11   12 13 14 15
//   channel    0  1  8  9    2  3 10 11    4  5 12 13    6  7 14 15
//   member          0             1             2             3
#include <algorithm>

#include "cuda/dense.h"
#include "cuda/launch.cuh"
#include "cuda/norm.cuh"
#include "cuda/tensor_core.cuh"

namespace poem::cuda {
namespace {

constexpr int kThreads = 256;

__device__ int channel_at(int position) {
  return position / 4 % 4 * 2 + position % 2 + position / 2 % 2 * 8 + position / 16 * 16;
}

struct WeightsList {
  LayerWeights layers[kMaxLayers];
};

// One row of thread blocks per layer. An element of `rounded` belongs to conv1, conv2 or conv2_transposed.
__global__ void round_kernel(WeightsList list, bool fold_norm2) {
  const LayerWeights& layer = list.layers[blockIdx.y];
  const int width = round_up(layer.channels, kChunk), conv1 = kBottleneck * width;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < conv1 + 2 * kConv2Weights;
       i += gridDim.x * blockDim.x) {
    float value = 0;
    if (i < conv1) {
      const int row = i / width, channel = i % width;
      if (channel < layer.channels) value = layer.conv1[row * layer.channels + channel];
      if (fold_norm2) value *= affine(layer.norm2, row).scale;
    } else if (i < conv1 + kConv2Weights) {
      const int at = channel_at(i - conv1);
      if (at < kGrowth * kTaps * kBottleneck) value = layer.conv2[at];
    } else {
      const int at = i - conv1 - kConv2Weights;
      const int in = at / (kPaddedGrowth * kTaps), tap = at / kPaddedGrowth % kTaps;
      const int out = channel_at(at % kPaddedGrowth);
      if (out < kGrowth) value = layer.conv2[(out * kTaps + tap) * kBottleneck + in];
    }
    layer.rounded[i] = to_bf16(value);
  }
}

struct RunningList {
  RunningStatistics norms[2 * kMaxLayers + 1];
};

// One thread block per BatchNorm.
__global__ void running_kernel(RunningList list, float pixels) {
  constexpr float kMomentum = 0.1f;
  const RunningStatistics& norm = list.norms[blockIdx.x];
  for (int i = threadIdx.x; i < norm.channels; i += blockDim.x) {
    const float mean = static_cast<float>(norm.batch.x[i]) / pixels,
                mean_square = static_cast<float>(norm.batch.x_squared[i]) / pixels;
    const float variance = fmaxf(mean_square - mean * mean, 0.0f) * pixels / fmaxf(pixels - 1, 1);
    norm.mean[i] += kMomentum * (mean - norm.mean[i]);
    norm.variance[i] += kMomentum * (variance - norm.variance[i]);
  }
}

}  // namespace

void round_weights(const LayerWeights* layers, int count, bool fold_norm2, cudaStream_t stream) {
  WeightsList list;
  std::copy_n(layers, count, list.layers);
  round_kernel<<<dim3(16, count), kThreads, 0, stream>>>(list, fold_norm2);
  check_launch("round_weights");
}

void update_running(const RunningStatistics* norms, int count, float pixels, cudaStream_t stream) {
  RunningList list;
  std::copy_n(norms, count, list.norms);
  running_kernel<<<count, kThreads, 0, stream>>>(list, pixels);
  check_launch("update_running");
}

}  // namespace poem::cuda
