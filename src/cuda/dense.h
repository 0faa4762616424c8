// Kernels for a block of DenseNet-BC layers in bfloat16 on tensor cores, forward and backward. Raw device
// pointers and a stream, no LibTorch header; src/cuda/dense_block.h is what the rest of poem calls.
//
// The channels of a block lie in one buffer, one row a pixel (NHWC), `stride` channels apart: a layer reads
// the first `channels` of a row and writes its 12 new ones behind them, so nothing is ever concatenated.
// BatchNorm and ReLU are applied while a kernel loads its input, and the batch's statistics are summed while
// a kernel writes its output. All layers of a block normalise a channel with the same statistics, so they are
// summed once.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace poem::cuda {

using Bf16 = uint16_t;  // the bits of a bfloat16

constexpr int kGrowth = 12;      // channels a layer adds
constexpr int kBottleneck = 48;  // channels between its two convolutions
constexpr int kMaxLayers = 32;   // of a block
constexpr int kChunk = 32;       // channels read at a time: a buffer ends with as many spare elements

// BatchNorm of some channels. With count 0, `first` and `second` are mean and variance; else the sums of x
// and x² over `count` pixels.
struct Norm {
  const float *weight, *bias, *first, *second;
  float count;
};

struct Block {  // the buffer of a block
  Bf16* x;
  int images, height, width, stride;
  // Sums over pixels in an order that never changes: room for row_floats(channels) numbers, where every
  // thread block of a kernel leaves its own. Null: thread blocks add theirs to the total as they finish.
  float* rows = nullptr;
  int pixels() const { return images * height * width; }
};
// Enough for any kernel of a block that ends with `channels` channels, on the GPU that is current.
int64_t row_floats(int channels);

// The weights of a layer, and room for them as the kernels want them.
struct Weights {
  int channels;        // the layer reads
  const float* conv1;  // 48 × channels
  const float* conv2;  // 12 × 3 × 3 × 48
  Norm norm2;          // folded into conv1 for inference
  Bf16* rounded;       // rounded_weights(channels) elements, as in Layer
};
constexpr int kPadded = 16;  // the 12 new channels, as tensor cores want them
constexpr int kTaps = 9;     // of conv2
constexpr int kConv2 = kPadded * kTaps * kBottleneck;
constexpr int rounded_weights(int channels) {
  return kBottleneck * ((channels + kChunk - 1) / kChunk * kChunk) + 2 * kConv2;
}
// Once a pass, for all layers of a block.
void round_weights(const Weights* layers, int count, bool fold, cudaStream_t stream);

struct Layer {
  int channels;  // it reads; even
  Norm norm1, norm2;
  const Bf16* conv1;  // 48 × channels, the rows filled up with zeros to a multiple of kChunk
  const Bf16* conv2;  // 16 × 3 × 3 × 48, the last four rows zeros; channels in the order of channel_at()
  const Bf16* conv2_back;  // 48 × 3 × 3 × 16: the same, transposed
};

// Inference: both convolutions in one kernel; conv1's weights come with the second BatchNorm folded in.
void infer_layer(const Block& block, const Layer& layer, cudaStream_t stream);

// Training, forward. `sums` are added to, [0] Σx and [1] Σx² of what is written.
struct Sums {
  float *first, *second;
};
void copy_in(const Block& block, const Bf16* input, int channels, Sums sums, cudaStream_t stream);
void forward_conv1(const Block& block, const Layer& layer, Bf16* middle, Sums sums, cudaStream_t stream);
void forward_conv2(const Block& block, const Layer& layer, const Bf16* middle, Sums sums,
                   cudaStream_t stream);

// BatchNorm, ReLU and the average over windows of `window_height` × `window_width` pixels, as bfloat16 or
// float.
struct Pool {
  int channels, window_height, window_width;
  Norm norm;
};
void pool(const Block& block, const Pool& pool, Bf16* output, cudaStream_t stream);
void pool(const Block& block, const Pool& pool, float* output, cudaStream_t stream);

// Training, backward. `gradient` is a buffer like block.x: what the first BatchNorms behind a channel add up
// to but for the terms that BatchNorm's mean and variance contribute. Those are the same two numbers for
// every pixel of a channel, known once the last layer that reads it is done: Later lists whose they are.
struct Later {
  int count = 0;
  const float* weight[kMaxLayers + 1];      // of each BatchNorm that read the channel
  const float* weight_sum[kMaxLayers + 1];  // its gradient of weight, Σ g x̂
  const float* bias_sum[kMaxLayers + 1];    // and of bias, Σ g
};
struct NormGradient {
  float *weight, *bias;
};
void pool_backward(const Block& block, const Pool& pool, const Bf16* output_gradient, Bf16* gradient,
                   NormGradient sums, cudaStream_t stream);
void pool_backward(const Block& block, const Pool& pool, const float* output_gradient, Bf16* gradient,
                   NormGradient sums, cudaStream_t stream);
// `written` is the Norm (sums, count) of the 12 channels that the layer wrote, `later` starts at them as
// well.
void backward_conv2(const Block& block, const Layer& layer, const Bf16* middle, const Bf16* gradient,
                    const Norm& written, const Later& later, Bf16* middle_gradient, NormGradient norm2,
                    float* conv2, cudaStream_t stream);
void backward_conv1(const Block& block, const Layer& layer, const Bf16* middle, const Bf16* middle_gradient,
                    NormGradient norm2, Bf16* gradient, NormGradient norm1, float* conv1,
                    cudaStream_t stream);
void copy_out(const Block& block, const Bf16* gradient, const Norm& written, const Later& later, int channels,
              Bf16* input_gradient, cudaStream_t stream);

// Running statistics: r ← 0.9 r + 0.1 s, s the batch's mean or unbiased variance.
struct Running {
  float *mean, *variance;
  const float *first, *second;
  int channels;
};
void update_running(const Running* norms, int count, float pixels, cudaStream_t stream);

}  // namespace poem::cuda
