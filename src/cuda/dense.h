// Kernels for a block of DenseNet-BC layers in bfloat16 on tensor cores, forward and backward. They take
// raw device pointers and a stream and need no LibTorch header. The rest of poem calls cuda/dense_block.h.
//
// A layer reads C channels and adds 12:
//
//   x (C) -> norm1, ReLU -> conv1 (1×1) -> bottleneck (48) -> norm2, ReLU -> conv2 (3×3) -> 12 new channels
//
// All channels of a block lie in one buffer, one row per pixel (NHWC), so nothing is ever concatenated.
// Layer 1 reads the block's input and writes the next 12 channels; layer 2 reads all of these and writes 12
// more:
//
//              <------------------- stride ------------------->
//             +---------------+---------+---------+-----+-------+
//    pixel 0  | block's input | layer 1 | layer 2 | ... | spare |
//    pixel 1  |               |   12    |   12    |     |       |
//      ...    |               |         |         |     |       |
//             +---------------+---------+---------+-----+-------+
//
// The order of calls:
//
//   inference            round_weights, copy_in, each layer's infer_layer, pool
//   training, forward    round_weights, copy_in, each layer's forward_conv1 and forward_conv2, pool,
//                        update_running
//   training, backward   pool_backward, each layer's backward_conv2 and backward_conv1 from the last layer to
//                        the first, copy_out
//
// A kernel applies BatchNorm and ReLU while it loads its input, and sums the batch's statistics while it
// writes its output. All layers of a block normalise a channel with the same statistics, so they are summed
// once.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace poem::cuda {

using Bf16 = uint16_t;  // the bits of a bfloat16

constexpr int kGrowth = 12;        // channels that a layer adds
constexpr int kBottleneck = 48;    // channels between its two convolutions
constexpr int kTaps = 9;           // of conv2: tap 3·row + column
constexpr int kMaxLayers = 32;     // of a block
constexpr int kChunk = 32;         // channels that conv1 reads at a time
constexpr int kPaddedGrowth = 16;  // the 12 new channels and 4 zeros: tensor cores multiply 16

__host__ __device__ constexpr int divide_up(int value, int divisor) {
  return (value + divisor - 1) / divisor;
}
__host__ __device__ constexpr int round_up(int value, int multiple) {
  return divide_up(value, multiple) * multiple;
}

// The buffer of a block. It ends with kChunk spare elements: the last chunk of the last pixel may reach past
// it.
struct BlockBuffer {
  Bf16* x;
  int images, height, width, stride;
  int pixels() const { return images * height * width; }
};

// Sums of x and of x² over pixels, per channel. Like all sums that a kernel needs of an earlier one, they are
// exact: cuda/totals.cuh.
struct Sums {
  double *x, *x_squared;
};

// BatchNorm of some channels: in training with the statistics of `count` pixels, in inference with a mean and
// a variance, and a `count` of 0.
struct Norm {
  const float *weight, *bias, *mean, *variance;
  Sums sums;
  float count;
};

// A layer's weights as they are trained, and room for them as the kernels read them.
struct LayerWeights {
  int channels;        // that the layer reads
  const float* conv1;  // 48 × channels
  const float* conv2;  // 12 × 3 × 3 × 48
  Norm norm2;          // inference folds it into conv1
  Bf16* rounded;       // rounded_weight_count(channels) elements: conv1, conv2, conv2_transposed of Layer
};
constexpr int kConv2Weights = kPaddedGrowth * kTaps * kBottleneck;
constexpr int rounded_weight_count(int channels) {
  return kBottleneck * round_up(channels, kChunk) + 2 * kConv2Weights;
}
// Once per pass, for all layers of a block.
void round_weights(const LayerWeights* layers, int count, bool fold_norm2, cudaStream_t stream);

struct Layer {
  int channels;  // that it reads; even
  Norm norm1, norm2;
  const Bf16* conv1;  // 48 × channels, each row filled up with zeros to a multiple of kChunk
  const Bf16* conv2;  // 16 × 3 × 3 × 48, the last four rows zeros; 48 in the order of cuda/dense_weights.cu
  const Bf16* conv2_transposed;  // 48 × 3 × 3 × 16, likewise
};

// Inference: both convolutions in one kernel. conv1's weights come with norm2 folded in.
void infer_layer(const BlockBuffer& buffer, const Layer& layer, cudaStream_t stream);

// Training, forward. A kernel adds the statistics of the pixels it writes to `sums`.
// input: pixels × channels. No sums where sums.x is null.
void copy_in(const BlockBuffer& buffer, const Bf16* input, int channels, Sums sums, cudaStream_t stream);
// bottleneck: pixels × 48, conv1's output.
void forward_conv1(const BlockBuffer& buffer, const Layer& layer, Bf16* bottleneck, Sums sums,
                   cudaStream_t stream);
void forward_conv2(const BlockBuffer& buffer, const Layer& layer, const Bf16* bottleneck, Sums sums,
                   cudaStream_t stream);

// BatchNorm, ReLU and the average over windows of `window_height` × `window_width` pixels. The output has one
// row of `channels` per window.
struct Pool {
  int channels, window_height, window_width;
  Norm norm;
};
void pool(const BlockBuffer& buffer, const Pool& pool, Bf16* output, cudaStream_t stream);
void pool(const BlockBuffer& buffer, const Pool& pool, float* output, cudaStream_t stream);

// Training, backward. `gradient` is a buffer like buffer.x for the gradients of its channels. Each kernel
// adds what comes through one BatchNorm, but for the two terms that BatchNorm's mean and variance contribute.
// These are the same for all pixels of a channel and known once every BatchNorm that reads the channel is
// done, so they are added to the gradient only when the layer that wrote the channel is reached: correction()
// in cuda/norm.cuh.
struct NormReaders {  // the BatchNorms that read some channels; all pointers start at the first of these
  Norm statistics;    // without weight and bias
  int count = 0;
  const float* weight[kMaxLayers + 1];
  const double* weight_gradient[kMaxLayers + 1];  // Σ g·x̂
  const double* bias_gradient[kMaxLayers + 1];    // Σ g
};
// Where a kernel adds the gradients of a BatchNorm's parameters.
struct NormGradient {
  double *weight, *bias;
};
// Where a kernel adds the gradient of a convolution's weights: one number per element, which is fast, or
// exact sums of two numbers per element, which are the same in every run (cuda/totals.cuh). Two neighbouring
// elements then have four numbers: the high ones of both, and the low ones of both.
struct WeightGradient {
  float* sums;
  bool exact;
};
void pool_backward(const BlockBuffer& buffer, const Pool& pool, const Bf16* output_gradient, Bf16* gradient,
                   NormGradient norm, cudaStream_t stream);
void pool_backward(const BlockBuffer& buffer, const Pool& pool, const float* output_gradient, Bf16* gradient,
                   NormGradient norm, cudaStream_t stream);
// `readers` are those of the 12 channels that the layer wrote. bottleneck_gradient: pixels × 48, written.
// conv2: 12 × 3 × 3 × 48, added to.
void backward_conv2(const BlockBuffer& buffer, const Layer& layer, const Bf16* bottleneck,
                    const Bf16* gradient, const NormReaders& readers, Bf16* bottleneck_gradient,
                    NormGradient norm2, WeightGradient conv2, cudaStream_t stream);
// norm2: as backward_conv2() left it. conv1: 48 × channels, added to.
void backward_conv1(const BlockBuffer& buffer, const Layer& layer, const Bf16* bottleneck,
                    const Bf16* bottleneck_gradient, NormGradient norm2, Bf16* gradient, NormGradient norm1,
                    WeightGradient conv1, cudaStream_t stream);
// The gradient of the block's input, pixels × channels. `readers` are those of the input.
void copy_out(const BlockBuffer& buffer, const Bf16* gradient, const NormReaders& readers, int channels,
              Bf16* input_gradient, cudaStream_t stream);

// Running statistics: r becomes 0.9 r + 0.1 s, with s the batch's mean or unbiased variance.
struct RunningStatistics {
  float *mean, *variance;
  Sums batch;
  int channels;
};
void update_running(const RunningStatistics* norms, int count, float pixels, cudaStream_t stream);

}  // namespace poem::cuda
