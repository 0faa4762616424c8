// The two ends of a dense block. At its front, copy_in() brings the input into the buffer, and copy_out()
// takes the input's gradient out of the buffer of gradients. At its back, pool() and pool_backward()
// compute BatchNorm, ReLU and the average over windows of pixels.
//
//   copy_in         input, pixels × C               -> buffer.x, the first C of each row; sums Σx and Σx²
//   copy_out        gradient, the first C of a row  -> input_gradient, pixels × C
//   pool            buffer.x, C of each row         -> output, windows × C
//   pool_backward   output_gradient, windows × C    -> gradient, C of each row; sums Σg and Σg·x̂
//
// These kernels mostly move data. There is no tile: a thread has a group of neighbouring channels (2 to
// copy, 8 to pool) and walks over rows, which are pixels or windows. Shared memory only serves to add sums.
//
//                       C channels
//                 +-------+-------+-- ... --+
//   row 0, y = 0  | x = 0 | x = 1 |         |
//   row 1, y = 1  |       |       |         |   a thread block: blockDim.x groups × blockDim.y rows
//        ...      |       |       |         |
//                 +-------+-------+-- ... --+
//                 the rows of the next thread block, and so on
#include <algorithm>

#include "cuda/dense.h"
#include "cuda/launch.cuh"
#include "cuda/norm.cuh"
#include "cuda/tensor_core.cuh"
#include "cuda/totals.cuh"

namespace poem::cuda {
namespace {

struct ThreadBlock {
  explicit ThreadBlock(int channel_groups)
      : groups(channel_groups), rows(std::max(1, 256 / channel_groups)) {}
  int groups, rows;
  dim3 size() const { return dim3(groups, rows); }
  int grid(int all_rows) const { return std::min(divide_up(all_rows, rows), 4 * multiprocessors()); }
  // The shared memory that add_over_rows() needs.
  int bytes(int channels_per_group) const { return groups * rows * channels_per_group * sizeof(float); }
};

// Adds what the threads of a thread block summed for the channels of their group, in a fixed order, to exact
// sums.
template <int kBits, int kChannels>
__device__ void add_over_rows(const float (&sums)[kChannels], int channels, float* shared, double* to) {
  const int width = blockDim.x * kChannels;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kChannels; ++i) shared[threadIdx.y * width + threadIdx.x * kChannels + i] = sums[i];
  __syncthreads();
  for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < channels; i += blockDim.x * blockDim.y) {
    float sum = 0;
    for (int y = 0; y < blockDim.y; ++y) sum += shared[y * width + i];
    add_exactly<kBits>(to + i, sum);
  }
}

__global__ void copy_in_kernel(BlockBuffer buffer, const Bf16* input, int channels, StatisticTotals totals,
                               int pixels) {
  extern __shared__ float shared[];
  const int channel = 2 * threadIdx.x;
  float sum[2] = {}, squares[2] = {};
  for (int64_t pixel = blockIdx.x * blockDim.y + threadIdx.y; pixel < pixels;
       pixel += gridDim.x * blockDim.y) {
    const uint32_t pair = load_as<uint32_t>(input + pixel * channels + channel);
    store_as(buffer.x + pixel * buffer.stride + channel, pair);
    sum[0] += low(pair), sum[1] += high(pair);
    squares[0] += low(pair) * low(pair), squares[1] += high(pair) * high(pair);
  }
  if (totals.first == nullptr) return;
  add_over_rows<kStatisticBits>(sum, channels, shared, totals.first);
  add_over_rows<kStatisticBits>(squares, channels, shared, totals.second);
}

__global__ void copy_out_kernel(BlockBuffer buffer, const Bf16* gradient, NormReaders readers, int channels,
                                Bf16* input_gradient, int pixels) {
  const int channel = 2 * threadIdx.x;
  const Correction correction0 = correction(readers, channel), correction1 = correction(readers, channel + 1);
  for (int64_t pixel = blockIdx.x * blockDim.y + threadIdx.y; pixel < pixels;
       pixel += gridDim.x * blockDim.y) {
    const int64_t at = pixel * buffer.stride + channel;
    const uint32_t x = load_as<uint32_t>(buffer.x + at), stored = load_as<uint32_t>(gradient + at);
    store_as(input_gradient + pixel * channels + channel,
             pack(low(stored) + low(x) * correction0.slope + correction0.constant,
                  high(stored) + high(x) * correction1.slope + correction1.constant));
  }
}

// The BatchNorm of a thread's eight channels; zeros behind the last one.
struct OctetNorm {
  float scale[kOctet], shift[kOctet];
  __device__ OctetNorm(const Norm& norm, int channels) {
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      const int channel = kOctet * threadIdx.x + i;
      const Affine a = channel < channels ? affine(norm, channel) : Affine{0, 0};
      scale[i] = a.scale;
      shift[i] = a.shift;
    }
  }
};
struct OctetMoments {
  float mean[kOctet], inverse_deviation[kOctet];
  __device__ OctetMoments(const Norm& norm, int channels) {
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      const int channel = kOctet * threadIdx.x + i;
      const Moments m = channel < channels ? moments(norm, channel) : Moments{0, 0};
      mean[i] = m.mean;
      inverse_deviation[i] = m.inverse_deviation;
    }
  }
};

__device__ void unpack_octet(const uint4& words, float (&x)[kOctet]) {
  const uint32_t pairs[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) x[2 * i] = low(pairs[i]), x[2 * i + 1] = high(pairs[i]);
}
__device__ uint4 pack_octet(const float (&x)[kOctet]) {
  return {pack(x[0], x[1]), pack(x[2], x[3]), pack(x[4], x[5]), pack(x[6], x[7])};
}

__device__ void store(Bf16* to, float x) { *to = to_bf16(x); }
__device__ void store(float* to, float x) { *to = x; }
__device__ float load(const Bf16* from) { return __uint_as_float(static_cast<uint32_t>(*from) << 16); }
__device__ float load(const float* from) { return *from; }

// The first pixel of window `index`. Windows are counted row by row through all images.
__device__ int64_t window_start(const BlockBuffer& buffer, const Pool& pool, int index) {
  const int columns = buffer.width / pool.window_width, rows = buffer.height / pool.window_height;
  const int image = index / (rows * columns), y = index / columns % rows, x = index % columns;
  return (static_cast<int64_t>(image) * buffer.height + y * pool.window_height) * buffer.width +
         x * pool.window_width;
}

template <class Output>
__global__ void pool_kernel(BlockBuffer buffer, Pool pool, Output* output, int windows) {
  const OctetNorm norm(pool.norm, pool.channels);
  const float share = 1.0f / static_cast<float>(pool.window_height * pool.window_width);
  for (int window = blockIdx.x * blockDim.y + threadIdx.y; window < windows;
       window += gridDim.x * blockDim.y) {
    const Bf16* from = buffer.x + window_start(buffer, pool, window) * buffer.stride + kOctet * threadIdx.x;
    float sum[kOctet] = {};
    for (int y = 0; y < pool.window_height; ++y)
      for (int x = 0; x < pool.window_width; ++x) {
        float in[kOctet];
        unpack_octet(*reinterpret_cast<const uint4*>(from + (y * buffer.width + x) * buffer.stride), in);
#pragma unroll
        for (int i = 0; i < kOctet; ++i) sum[i] += fmaxf(in[i] * norm.scale[i] + norm.shift[i], 0.0f);
      }
    Output* to = output + static_cast<int64_t>(window) * pool.channels + kOctet * threadIdx.x;
#pragma unroll
    for (int i = 0; i < kOctet; ++i)
      if (kOctet * threadIdx.x + i < pool.channels) store(to + i, sum[i] * share);
  }
}

// Every pixel of a window gets the same share of the window's gradient. This is the first kernel of the
// backward pass, so it writes the gradient of all channels instead of adding to it.
template <class Output>
__global__ void pool_backward_kernel(BlockBuffer buffer, Pool pool, const Output* output_gradient,
                                     Bf16* gradient, GradientTotals totals, int windows) {
  extern __shared__ float shared[];
  const OctetNorm norm(pool.norm, pool.channels);
  const OctetMoments moments(pool.norm, pool.channels);
  float bias[kOctet] = {}, weight[kOctet] = {};  // Σg and Σg·x̂
  const float share = 1.0f / static_cast<float>(pool.window_height * pool.window_width);
  for (int window = blockIdx.x * blockDim.y + threadIdx.y; window < windows;
       window += gridDim.x * blockDim.y) {
    float each[kOctet];
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      const int channel = kOctet * threadIdx.x + i;
      each[i] = channel < pool.channels
                    ? share * load(output_gradient + static_cast<int64_t>(window) * pool.channels + channel)
                    : 0.0f;
    }
    const int64_t start = window_start(buffer, pool, window) * buffer.stride + kOctet * threadIdx.x;
    for (int y = 0; y < pool.window_height; ++y)
      for (int x = 0; x < pool.window_width; ++x) {
        const int64_t at = start + (y * buffer.width + x) * buffer.stride;
        float in[kOctet], out[kOctet];
        unpack_octet(*reinterpret_cast<const uint4*>(buffer.x + at), in);
#pragma unroll
        for (int i = 0; i < kOctet; ++i) {
          const float g = in[i] * norm.scale[i] + norm.shift[i] > 0 ? each[i] : 0.0f;
          bias[i] += g;
          weight[i] += g * (in[i] - moments.mean[i]) * moments.inverse_deviation[i];
          out[i] = g * norm.scale[i];
        }
        store_as(gradient + at, pack_octet(out));
      }
  }
  add_over_rows<kGradientBits>(bias, pool.channels, shared, totals.first);
  add_over_rows<kGradientBits>(weight, pool.channels, shared, totals.second);
}

template <class Output>
void pool_as(const BlockBuffer& buffer, const Pool& pool, Output* output, cudaStream_t stream) {
  const ThreadBlock threads(divide_up(pool.channels, kOctet));
  const int windows = buffer.pixels() / (pool.window_height * pool.window_width);
  pool_kernel<<<threads.grid(windows), threads.size(), 0, stream>>>(buffer, pool, output, windows);
  check_launch("pool");
}

template <class Output>
void pool_backward_as(const BlockBuffer& buffer, const Pool& pool, const Output* output_gradient,
                      Bf16* gradient, NormGradient norm, cudaStream_t stream) {
  const ThreadBlock threads(divide_up(pool.channels, kOctet));
  const int windows = buffer.pixels() / (pool.window_height * pool.window_width);
  pool_backward_kernel<<<threads.grid(windows), threads.size(), threads.bytes(kOctet), stream>>>(
      buffer, pool, output_gradient, gradient, totals(norm), windows);
  check_launch("pool_backward");
}

}  // namespace

void copy_in(const BlockBuffer& buffer, const Bf16* input, int channels, Sums sums, cudaStream_t stream) {
  const ThreadBlock threads(channels / 2);
  copy_in_kernel<<<threads.grid(buffer.pixels()), threads.size(), threads.bytes(2), stream>>>(
      buffer, input, channels, totals(sums), buffer.pixels());
  check_launch("copy_in");
}

void copy_out(const BlockBuffer& buffer, const Bf16* gradient, const NormReaders& readers, int channels,
              Bf16* input_gradient, cudaStream_t stream) {
  const ThreadBlock threads(channels / 2);
  copy_out_kernel<<<threads.grid(buffer.pixels()), threads.size(), 0, stream>>>(
      buffer, gradient, readers, channels, input_gradient, buffer.pixels());
  check_launch("copy_out");
}

void pool(const BlockBuffer& buffer, const Pool& pool, Bf16* output, cudaStream_t stream) {
  pool_as(buffer, pool, output, stream);
}
void pool(const BlockBuffer& buffer, const Pool& pool, float* output, cudaStream_t stream) {
  pool_as(buffer, pool, output, stream);
}
void pool_backward(const BlockBuffer& buffer, const Pool& pool, const Bf16* output_gradient, Bf16* gradient,
                   NormGradient norm, cudaStream_t stream) {
  pool_backward_as(buffer, pool, output_gradient, gradient, norm, stream);
}
void pool_backward(const BlockBuffer& buffer, const Pool& pool, const float* output_gradient, Bf16* gradient,
                   NormGradient norm, cudaStream_t stream) {
  pool_backward_as(buffer, pool, output_gradient, gradient, norm, stream);
}

}  // namespace poem::cuda
