// What stands at the two ends of a dense block: weights as bfloat16, channels in and out of its buffer, and
// norm, ReLU and pooling.
#include <algorithm>

#include "cuda/launch.cuh"
#include "cuda/tile.cuh"

namespace poem::cuda {
namespace {

constexpr int kThreads = 256;

// Threads of a block are `lanes` side by side, one a group of channels, times as many pixels as fit.
struct Lanes {
  explicit Lanes(int groups) : count(groups) { pixels = std::max(1, kThreads / groups); }
  int count, pixels;
  dim3 block() const { return dim3(count, pixels); }
  int shared(int channels) const { return count * pixels * channels * sizeof(float); }  // as many a thread
  int grid(int rows) const { return std::min((rows + pixels - 1) / pixels, 4 * multiprocessors()); }
};

// Adds kCount channels of each thread over the pixels of a thread block, in their order, and to part kPart of
// the totals. `shared` holds kCount numbers a thread.
template <int kPart, int kCount>
__device__ void add_over_pixels(const float (&value)[kCount], int channels, float* shared,
                                const Totals& totals) {
  const int width = blockDim.x * kCount;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kCount; ++i) shared[threadIdx.y * width + threadIdx.x * kCount + i] = value[i];
  __syncthreads();
  for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < channels; i += blockDim.x * blockDim.y) {
    float sum = 0;
    for (int y = 0; y < blockDim.y; ++y) sum += shared[y * width + i];
    totals.add<kPart>(i, sum);
  }
}

struct WeightsList {
  Weights layers[kMaxLayers];
};

// The channel at place `i` of 16: as a lane takes four neighbouring elements of conv2's weights at once,
// those that tensor cores want of it stand there.
__device__ int channel_at(int i) { return i / 4 % 4 * 2 + i % 2 + i / 2 % 2 * 8 + i / 16 * 16; }

__global__ void round_kernel(WeightsList list, bool fold) {
  const Weights& layer = list.layers[blockIdx.y];
  const int width = up_to(layer.channels, kChunk), conv1 = kBottleneck * width;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < conv1 + 2 * kConv2; i += gridDim.x * blockDim.x) {
    float value = 0;
    if (i < conv1) {
      const int row = i / width, channel = i % width;
      if (channel < layer.channels) value = layer.conv1[row * layer.channels + channel];
      if (fold) value *= affine(layer.norm2, row).scale;
    } else if (i < conv1 + kConv2) {
      const int at = channel_at(i - conv1);
      if (at < kGrowth * kTaps * kBottleneck) value = layer.conv2[at];
    } else {
      const int at = i - conv1 - kConv2, out = channel_at(at % kPadded), tap = at / kPadded % kTaps;
      const int in = at / (kPadded * kTaps);
      if (out < kGrowth) value = layer.conv2[(out * kTaps + tap) * kBottleneck + in];
    }
    layer.rounded[i] = round_off(value);
  }
}

__global__ void copy_in_kernel(Block block, const Bf16* input, int channels, Totals totals, int pixels) {
  extern __shared__ float shared[];
  float total[2] = {}, squares[2] = {};
  for (int64_t pixel = blockIdx.x * blockDim.y + threadIdx.y; pixel < pixels;
       pixel += gridDim.x * blockDim.y) {
    const uint32_t pair = *reinterpret_cast<const uint32_t*>(input + pixel * channels + 2 * threadIdx.x);
    *reinterpret_cast<uint32_t*>(block.x + pixel * block.stride + 2 * threadIdx.x) = pair;
    total[0] += low(pair), total[1] += high(pair);
    squares[0] += low(pair) * low(pair), squares[1] += high(pair) * high(pair);
  }
  if (totals.width() == 0) return;
  add_over_pixels<0>(total, channels, shared, totals);
  add_over_pixels<1>(squares, channels, shared, totals);
}

__global__ void copy_out_kernel(Block block, const Bf16* gradient, Norm written, Later later, int channels,
                                Bf16* input_gradient, int pixels) {
  const Correction c0 = correction(written, later, 2 * threadIdx.x),
                   c1 = correction(written, later, 2 * threadIdx.x + 1);
  for (int64_t pixel = blockIdx.x * blockDim.y + threadIdx.y; pixel < pixels;
       pixel += gridDim.x * blockDim.y) {
    const int64_t at = pixel * block.stride + 2 * threadIdx.x;
    const uint32_t x = *reinterpret_cast<const uint32_t*>(block.x + at);
    const uint32_t g = *reinterpret_cast<const uint32_t*>(gradient + at);
    *reinterpret_cast<uint32_t*>(input_gradient + pixel * channels + 2 * threadIdx.x) =
        pack(low(g) + low(x) * c0.a + c0.b, high(g) + high(x) * c1.a + c1.b);
  }
}

// Eight channels of a thread: their BatchNorm.
struct Eight {
  float scale[8], shift[8];
  __device__ Eight(const Norm& norm, int channels) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int channel = 8 * threadIdx.x + i;
      const Affine a = channel < channels ? affine(norm, channel) : Affine{0, 0};
      scale[i] = a.scale;
      shift[i] = a.shift;
    }
  }
};

__device__ void unpack(const uint4& in, float (&x)[8]) {
  const uint32_t pairs[4] = {in.x, in.y, in.z, in.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) x[2 * i] = low(pairs[i]), x[2 * i + 1] = high(pairs[i]);
}

__device__ void store(Bf16* to, float x) { *to = round_off(x); }
__device__ void store(float* to, float x) { *to = x; }
__device__ float load(const Bf16* from) { return __uint_as_float(static_cast<uint32_t>(*from) << 16); }
__device__ float load(const float* from) { return *from; }

// The first pixel of window `index`, windows counted row by row through all images.
__device__ int64_t window_start(const Block& block, const Pool& pool, int index) {
  const int columns = block.width / pool.window_width, rows = block.height / pool.window_height;
  const int image = index / (rows * columns), y = index / columns % rows, x = index % columns;
  return (static_cast<int64_t>(image) * block.height + y * pool.window_height) * block.width +
         x * pool.window_width;
}

template <class Output>
__global__ void pool_kernel(Block block, Pool pool, Output* output, int windows) {
  const Eight norm(pool.norm, pool.channels);
  const float share = 1.0f / static_cast<float>(pool.window_height * pool.window_width);
  for (int window = blockIdx.x * blockDim.y + threadIdx.y; window < windows;
       window += gridDim.x * blockDim.y) {
    const Bf16* from = block.x + window_start(block, pool, window) * block.stride + 8 * threadIdx.x;
    float sum[8] = {};
    for (int y = 0; y < pool.window_height; ++y)
      for (int x = 0; x < pool.window_width; ++x) {
        float in[8];
        unpack(*reinterpret_cast<const uint4*>(from + (y * block.width + x) * block.stride), in);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[i] += fmaxf(in[i] * norm.scale[i] + norm.shift[i], 0.0f);
      }
    Output* to = output + static_cast<int64_t>(window) * pool.channels + 8 * threadIdx.x;
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (8 * threadIdx.x + i < pool.channels) store(to + i, sum[i] * share);
  }
}

template <class Output>
__global__ void pool_backward_kernel(Block block, Pool pool, const Output* output_gradient, Bf16* gradient,
                                     Totals totals, int windows) {
  extern __shared__ float shared[];
  const Eight norm(pool.norm, pool.channels);
  float mean[8], inverse[8], bias[8] = {}, weight[8] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int channel = 8 * threadIdx.x + i;
    const Moments m = channel < pool.channels ? moments(pool.norm, channel) : Moments{0, 0};
    mean[i] = m.mean;
    inverse[i] = m.inverse;
  }
  const float share = 1.0f / static_cast<float>(pool.window_height * pool.window_width);
  for (int window = blockIdx.x * blockDim.y + threadIdx.y; window < windows;
       window += gridDim.x * blockDim.y) {
    float d[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int channel = 8 * threadIdx.x + i;
      d[i] = channel < pool.channels
                 ? share * load(output_gradient + static_cast<int64_t>(window) * pool.channels + channel)
                 : 0.0f;
    }
    const int64_t start = window_start(block, pool, window) * block.stride + 8 * threadIdx.x;
    for (int y = 0; y < pool.window_height; ++y)
      for (int x = 0; x < pool.window_width; ++x) {
        const int64_t at = start + (y * block.width + x) * block.stride;
        float in[8], out[8];
        unpack(*reinterpret_cast<const uint4*>(block.x + at), in);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const float g = in[i] * norm.scale[i] + norm.shift[i] > 0 ? d[i] : 0.0f;
          bias[i] += g;
          weight[i] += g * (in[i] - mean[i]) * inverse[i];
          out[i] = g * norm.scale[i];
        }
        *reinterpret_cast<uint4*>(gradient + at) = {pack(out[0], out[1]), pack(out[2], out[3]),
                                                    pack(out[4], out[5]), pack(out[6], out[7])};
      }
  }
  add_over_pixels<0>(bias, pool.channels, shared, totals);
  add_over_pixels<1>(weight, pool.channels, shared, totals);
}

struct RunningList {
  Running norms[2 * kMaxLayers + 1];
};

__global__ void running_kernel(RunningList list, float pixels) {
  constexpr float kMomentum = 0.1f;
  const Running& norm = list.norms[blockIdx.x];
  for (int i = threadIdx.x; i < norm.channels; i += blockDim.x) {
    const float mean = norm.first[i] / pixels;
    const float variance = fmaxf(norm.second[i] / pixels - mean * mean, 0.0f) * pixels / fmaxf(pixels - 1, 1);
    norm.mean[i] += kMomentum * (mean - norm.mean[i]);
    norm.variance[i] += kMomentum * (variance - norm.variance[i]);
  }
}

template <class Output>
void pool_as(const Block& block, const Pool& pool, Output* output, cudaStream_t stream) {
  const Lanes lanes((pool.channels + 7) / 8);
  const int windows = block.pixels() / (pool.window_height * pool.window_width);
  pool_kernel<<<lanes.grid(windows), lanes.block(), 0, stream>>>(block, pool, output, windows);
  check_launch("pool");
}

template <class Output>
void pool_backward_as(const Block& block, const Pool& pool, const Output* output_gradient, Bf16* gradient,
                      NormGradient sums, cudaStream_t stream) {
  const Lanes lanes((pool.channels + 7) / 8);
  const int windows = block.pixels() / (pool.window_height * pool.window_width);
  const Totals totals{block.rows, {{sums.bias, pool.channels}, {sums.weight, pool.channels}, {}}};
  pool_backward_kernel<<<lanes.grid(windows), lanes.block(), lanes.shared(8), stream>>>(
      block, pool, output_gradient, gradient, totals, windows);
  check_launch("pool_backward");
  add_rows_up(totals, lanes.grid(windows), stream);
}

}  // namespace

void round_weights(const Weights* layers, int count, bool fold, cudaStream_t stream) {
  WeightsList list;
  std::copy_n(layers, count, list.layers);
  round_kernel<<<dim3(16, count), kThreads, 0, stream>>>(list, fold);
  check_launch("round_weights");
}

void copy_in(const Block& block, const Bf16* input, int channels, Sums sums, cudaStream_t stream) {
  const Lanes lanes(channels / 2);
  const int grid = lanes.grid(block.pixels()), summed = sums.first == nullptr ? 0 : channels;
  const Totals totals{summed == 0 ? nullptr : block.rows, {{sums.first, summed}, {sums.second, summed}, {}}};
  copy_in_kernel<<<grid, lanes.block(), lanes.shared(2), stream>>>(block, input, channels, totals,
                                                                   block.pixels());
  check_launch("copy_in");
  add_rows_up(totals, grid, stream);
}

void copy_out(const Block& block, const Bf16* gradient, const Norm& written, const Later& later, int channels,
              Bf16* input_gradient, cudaStream_t stream) {
  const Lanes lanes(channels / 2);
  copy_out_kernel<<<lanes.grid(block.pixels()), lanes.block(), 0, stream>>>(
      block, gradient, written, later, channels, input_gradient, block.pixels());
  check_launch("copy_out");
}

void pool(const Block& block, const Pool& pool, Bf16* output, cudaStream_t stream) {
  pool_as(block, pool, output, stream);
}
void pool(const Block& block, const Pool& pool, float* output, cudaStream_t stream) {
  pool_as(block, pool, output, stream);
}
void pool_backward(const Block& block, const Pool& pool, const Bf16* output_gradient, Bf16* gradient,
                   NormGradient sums, cudaStream_t stream) {
  pool_backward_as(block, pool, output_gradient, gradient, sums, stream);
}
void pool_backward(const Block& block, const Pool& pool, const float* output_gradient, Bf16* gradient,
                   NormGradient sums, cudaStream_t stream) {
  pool_backward_as(block, pool, output_gradient, gradient, sums, stream);
}

void update_running(const Running* norms, int count, float pixels, cudaStream_t stream) {
  RunningList list;
  std::copy_n(norms, count, list.norms);
  running_kernel<<<count, kThreads, 0, stream>>>(list, pixels);
  check_launch("update_running");
}

}  // namespace poem::cuda
