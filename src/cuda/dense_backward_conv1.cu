// The backward pass of a layer's 1×1 convolution, conv1.
//
//   reads     buffer.x              pixels × C    x, the channels that the layer reads
//             bottleneck            pixels × 48   y, the output of conv1
//             bottleneck_gradient   pixels × 48   g, the gradient of norm2's output
//   adds to   gradient              pixels × C    the part of x's gradient that comes through this layer
//             conv1                 48 × C        the gradient of the weights
//             totals                C each        the gradients of norm1's bias and weight
//
//   step 1, norm2's backward pass     dy = γ/σ · (g − Σg/n − x̂ · Σ(g·x̂)/n)          pixels × 48
//   step 2, gradient of the weights   dw = dyᵀ · relu(norm1(x))                     48 × C
//   step 3, gradient of the input     dx = dy · weight, zero where the ReLU is off  pixels × C
//
// A thread block walks over tiles of 64 pixels and all C channels, which it keeps in shared memory. Each
// octet of channels belongs to one warp, in all tiles, so this warp sums the octet's gradients alone, in
// registers:
//
//                 C channels, an octet per column                                  48
//               +--------+--------+-- ... --+--------+--------+-- ...          +---------+
//    64         |        |        |         |        |        |                |         |
//    pixels     | warp 0 | warp 1 |         | warp 7 | warp 0 |                |   all   |
//               |        |        |         |        |        |                |  warps  |
//               +--------+--------+-- ... --+--------+--------+-- ...          +---------+
//                 x, and its gradient                                            dy
//
//    48         | warp 0 | warp 1 |   ...   | warp 7 | warp 0 |
//                 weight, and its gradient
//
// The picture shows kWarps = 8. A warp owns at most kOctets octets: with 8 warps up to 4, that is C ≤ 256;
// with 16 warps 3, that is C ≤ 384.
#include <algorithm>

#include "cuda/dense.h"
#include "cuda/launch.cuh"
#include "cuda/norm.cuh"
#include "cuda/shared_memory.cuh"
#include "cuda/tensor_core.cuh"
#include "cuda/tile.cuh"
#include "cuda/totals.cuh"

namespace poem::cuda {
namespace {

constexpr int kTilePixels = 64;
constexpr int kBottleneckStrips = kBottleneck / kStrip;  // the rows of dyᵀ

struct Norm2Constants {  // dy = g · gradient_factor + y · slope + constant
  float gradient_factor[kBottleneck], slope[kBottleneck], constant[kBottleneck];
};

struct SharedMemory {
  int row_stride;  // elements; the 8 spare ones put the rows that one load reads into different banks
  SharedLayout layout;
  SharedArray<Bf16> x, gradient;                             // 64 × C
  SharedArray<Bf16> weight;                                  // 48 × C
  SharedArray<Bf16> dy;                                      // 64 × 48, kBottleneckStride apart
  SharedArray<float> scale, shift, mean, inverse_deviation;  // norm1: C, zeros behind the last channel
  SharedArray<Norm2Constants> norm2;
  __host__ __device__ explicit SharedMemory(int channels)
      : row_stride(round_up(channels, 16) + 8),
        x(layout.add<Bf16>(kTilePixels * row_stride)),
        gradient(layout.add<Bf16>(kTilePixels * row_stride)),
        weight(layout.add<Bf16>(kBottleneck * row_stride)),
        dy(layout.add<Bf16>(kTilePixels * kBottleneckStride)),
        scale(layout.add<float>(row_stride)),
        shift(layout.add<float>(row_stride)),
        mean(layout.add<float>(row_stride)),
        inverse_deviation(layout.add<float>(row_stride)),
        norm2(layout.add<Norm2Constants>(1)) {}
};

struct Arguments {  // what the steps on a tile read and write
  BlockBuffer buffer;
  const Bf16 *bottleneck, *bottleneck_gradient;
  Bf16* gradient;
  int channels;  // that the layer reads
  int pixels;    // of all images
  __device__ int octets() const { return divide_up(channels, kOctet); }
};

// What a lane sums over its pixels of all tiles, for each octet of its warp.
template <int kOctets>
struct Gradients {
  float weight[kOctets][kBottleneckStrips][4] = {};
  ChannelSums<kOctets> norm1;
};

// Every thread copies the same 16 bytes of each tile in and out. Calls f(offset in the tile, offset in the
// buffer, whether the pixel exists) for them.
template <int kWarps, class Function>
__device__ __forceinline__ void for_my_octets(const Arguments& in, const SharedMemory& memory,
                                              const Role& role, int first_pixel, Function f) {
  for (int pixel = role.warp; pixel < kTilePixels; pixel += kWarps)
    for (int channel = 8 * role.lane; channel < in.channels; channel += 8 * kWarp)
      f(pixel * memory.row_stride + channel,
        static_cast<int64_t>(first_pixel + pixel) * in.buffer.stride + channel,
        first_pixel + pixel < in.pixels);
}

template <int kWarps>
__device__ __forceinline__ void copy_tile_async(const Arguments& in, const SharedMemory& memory,
                                                const Role& role, int first_pixel) {
  Bf16 *x = memory.x.get(), *gradient = memory.gradient.get();
  for_my_octets<kWarps>(in, memory, role, first_pixel, [&](int to, int64_t from, bool exists) {
    if (exists) {
      copy_async(x + to, in.buffer.x + from);
      copy_async(gradient + to, in.gradient + from);
    } else {
      store_as(x + to, uint4{0, 0, 0, 0});
    }
  });
}

// The last octet may reach behind the layer's channels. What it writes there is what it read, and nobody
// needs it.
template <int kWarps>
__device__ __forceinline__ void store_gradient(const Arguments& in, const SharedMemory& memory,
                                               const Role& role, int first_pixel) {
  const Bf16* gradient = memory.gradient.get();
  for_my_octets<kWarps>(in, memory, role, first_pixel, [&](int from, int64_t to, bool exists) {
    if (exists) store_as(in.gradient + to, load_as<uint4>(gradient + from));
  });
}

// Brings the weights and computes what the two BatchNorms need.
__device__ __forceinline__ void prepare(const Arguments& in, const SharedMemory& memory, const Layer& layer,
                                        const NormGradient& norm2_gradient) {
  const Norm &norm1 = layer.norm1, &norm2 = layer.norm2;
  copy_rows_async(memory.weight.get(), memory.row_stride, layer.conv1, round_up(in.channels, kChunk),
                  kBottleneck, kOctet * in.octets());
  for (int i = threadIdx.x; i < memory.row_stride; i += blockDim.x) {
    const bool exists = i < in.channels;
    const Moments m = exists ? moments(norm1, i) : Moments{0, 0};
    memory.mean[i] = m.mean;
    memory.inverse_deviation[i] = m.inverse_deviation;
    memory.scale[i] = exists ? norm1.weight[i] * m.inverse_deviation : 0.0f;
    memory.shift[i] = exists ? norm1.bias[i] - m.mean * memory.scale[i] : 0.0f;
  }
  for (int i = threadIdx.x; i < kBottleneck; i += blockDim.x) {
    const Moments m = moments(norm2, i);
    const float factor = norm2.weight[i] * m.inverse_deviation;
    const float bias = static_cast<float>(norm2_gradient.bias[i]),
                weight = static_cast<float>(norm2_gradient.weight[i]);
    const float slope = factor * weight / norm2.count * m.inverse_deviation;
    memory.norm2->gradient_factor[i] = factor;
    memory.norm2->slope[i] = -slope;
    memory.norm2->constant[i] = slope * m.mean - factor * bias / norm2.count;
  }
  __syncthreads();
}

// Step 1, with four threads per pixel.
__device__ __forceinline__ void load_dy(const Arguments& in, const SharedMemory& memory, int first_pixel) {
  constexpr int kChannels = kBottleneck / 4, kParts = kChannels / 4;
  if (threadIdx.x >= 4 * kTilePixels) return;
  const auto& [factor, slope, constant] = *memory.norm2.get();
  const int pixel = threadIdx.x / 4, start = threadIdx.x % 4 * kChannels;
  const bool exists = first_pixel + pixel < in.pixels;
  const int64_t at = static_cast<int64_t>(first_pixel + pixel) * kBottleneck + start;
  uint2 y[kParts], g[kParts];
#pragma unroll
  for (int i = 0; i < kParts; ++i) {
    if (!exists) continue;
    y[i] = load_as<uint2>(in.bottleneck + at + 4 * i);
    g[i] = load_as<uint2>(in.bottleneck_gradient + at + 4 * i);
  }
#pragma unroll
  for (int i = 0; i < kParts; ++i) {
    const int k = start + 4 * i;
    uint2 dy = {0, 0};
    if (exists) {
      dy.x = pack(low(g[i].x) * factor[k] + low(y[i].x) * slope[k] + constant[k],
                  high(g[i].x) * factor[k + 1] + high(y[i].x) * slope[k + 1] + constant[k + 1]);
      dy.y = pack(low(g[i].y) * factor[k + 2] + low(y[i].y) * slope[k + 2] + constant[k + 2],
                  high(g[i].y) * factor[k + 3] + high(y[i].y) * slope[k + 3] + constant[k + 3]);
    }
    store_as(memory.dy.get() + pixel * kBottleneckStride + k, dy);
  }
}

// Step 2: dyᵀ (48 × pixels) · relu(norm1(x)) (pixels × 8) for each octet of the warp.
template <int kWarps, int kOctets>
__device__ __forceinline__ void add_weight_gradient(const Arguments& in, const SharedMemory& memory,
                                                    const Role& role,
                                                    float (&sum)[kOctets][kBottleneckStrips][4]) {
#pragma unroll
  for (int begin = 0; begin < kTilePixels; begin += kInner) {
    uint32_t dy[kBottleneckStrips][4];
#pragma unroll
    for (int strip = 0; strip < kBottleneckStrips; ++strip)
      load_transposed(dy[strip], memory.dy.get() + (begin + role.transposed_row) * kBottleneckStride +
                                     kStrip * strip + role.transposed_column);
#pragma unroll
    for (int j = 0; j < kOctets; ++j) {
      const int octet = role.warp + kWarps * j;
      if (octet >= in.octets()) break;
      uint32_t x[2];
      load_transposed(x, memory.x.get() + (begin + role.row) * memory.row_stride + kOctet * octet);
      const float scale = memory.scale[kOctet * octet + role.group],
                  shift = memory.shift[kOctet * octet + role.group];
      const uint32_t active0 = activate(x[0], scale, shift, scale, shift),
                     active1 = activate(x[1], scale, shift, scale, shift);
#pragma unroll
      for (int strip = 0; strip < kBottleneckStrips; ++strip)
        multiply_add(sum[j][strip], dy[strip], active0, active1);
    }
  }
}

// norm1 of the two neighbouring channels that a lane holds of an octet.
struct PairNorm {
  float scale[2], shift[2], mean[2], inverse_deviation[2];
  __device__ PairNorm(const SharedMemory& memory, int channel)
      : scale{memory.scale[channel], memory.scale[channel + 1]},
        shift{memory.shift[channel], memory.shift[channel + 1]},
        mean{memory.mean[channel], memory.mean[channel + 1]},
        inverse_deviation{memory.inverse_deviation[channel], memory.inverse_deviation[channel + 1]} {}
};

// Adds dx of the 16 pixels from `begin` on, where norm1's ReLU is on, to the gradient of x, and sums it for
// the gradients of norm1's bias and weight.
__device__ __forceinline__ void add_through_relu(const SharedMemory& memory, const Role& role, int begin,
                                                 int channel, const PairNorm& norm1, const float (&dx)[4],
                                                 float (&bias)[2], float (&weight)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int at = (begin + 8 * half + role.group) * memory.row_stride + channel;
    const uint32_t x = load_as<uint32_t>(memory.x.get() + at);
    Bf16* to = memory.gradient.get() + at;
    const uint32_t stored = load_as<uint32_t>(to);
    const float d0 = low(x) * norm1.scale[0] + norm1.shift[0] > 0 ? dx[2 * half] : 0.0f,
                d1 = high(x) * norm1.scale[1] + norm1.shift[1] > 0 ? dx[2 * half + 1] : 0.0f;
    bias[0] += d0;
    bias[1] += d1;
    weight[0] += d0 * (low(x) - norm1.mean[0]) * norm1.inverse_deviation[0];
    weight[1] += d1 * (high(x) - norm1.mean[1]) * norm1.inverse_deviation[1];
    store_as(to, pack(low(stored) + d0 * norm1.scale[0], high(stored) + d1 * norm1.scale[1]));
  }
}

// Step 3: dy (pixels × 48) · weight (48 × 8) for each octet of the warp.
template <int kWarps, int kOctets>
__device__ __forceinline__ void add_input_gradient(const Arguments& in, const SharedMemory& memory,
                                                   const Role& role, ChannelSums<kOctets>& norm1_sums) {
#pragma unroll
  for (int j = 0; j < kOctets; ++j) {
    const int octet = role.warp + kWarps * j, channel = role.channel(octet);
    if (octet >= in.octets()) break;
    uint32_t weight[4], weight_end[2];  // rows 0 … 31 and 32 … 47
    load_transposed(weight, memory.weight.get() + role.lane * memory.row_stride + kOctet * octet);
    load_transposed(weight_end, memory.weight.get() + (32 + role.row) * memory.row_stride + kOctet * octet);
    const PairNorm norm1(memory, channel);
#pragma unroll
    for (int begin = 0; begin < kTilePixels; begin += kStrip) {
      float dx[4] = {};
      uint32_t dy[4];
      const Bf16* from = memory.dy.get() + (begin + role.row) * kBottleneckStride + role.column;
      load_matrices(dy, from);
      multiply_add(dx, dy, weight[0], weight[1]);
      load_matrices(dy, from + kInner);
      multiply_add(dx, dy, weight[2], weight[3]);
      load_matrices(dy, from + 2 * kInner);
      multiply_add(dx, dy, weight_end[0], weight_end[1]);
      add_through_relu(memory, role, begin, channel, norm1, dx, norm1_sums.first[j], norm1_sums.second[j]);
    }
  }
}

template <int kWarps, int kOctets>
__device__ __forceinline__ void add_totals(const Role& role, int channels,
                                           const Gradients<kOctets>& gradients, const WeightGradient& conv1,
                                           const GradientTotals& totals) {
#pragma unroll
  for (int j = 0; j < kOctets; ++j) {
    const int octet = role.warp + kWarps * j, channel = role.channel(octet);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float bias = sum_over_groups(gradients.norm1.first[j][i]),
                  weight = sum_over_groups(gradients.norm1.second[j][i]);
      if (role.group == 0 && channel < channels) totals.add(channel + i, bias, weight);
    }
    if (channel >= channels) continue;
#pragma unroll
    for (int strip = 0; strip < kBottleneckStrips; ++strip) {
      const float(&sum)[4] = gradients.weight[j][strip];
      add_pair(conv1, (kStrip * strip + role.group) * channels + channel, sum[0], sum[1]);
      add_pair(conv1, (kStrip * strip + role.group + 8) * channels + channel, sum[2], sum[3]);
    }
  }
}

template <int kWarps, int kOctets>
__global__ void __launch_bounds__(kWarps* kWarp, 16 / kWarps)
    backward_conv1_kernel(Arguments in, SharedMemory memory, Layer layer, NormGradient norm2_gradient,
                          WeightGradient conv1, GradientTotals totals) {
  const Role role;
  int first_pixel = blockIdx.x * kTilePixels;
  copy_tile_async<kWarps>(in, memory, role, first_pixel);
  prepare(in, memory, layer, norm2_gradient);

  Gradients<kOctets> gradients;
  while (first_pixel < in.pixels) {
    load_dy(in, memory, first_pixel);
    wait_for_copies();
    __syncthreads();
    add_weight_gradient<kWarps>(in, memory, role, gradients.weight);
    __syncwarp();
    add_input_gradient<kWarps>(in, memory, role, gradients.norm1);
    __syncthreads();
    store_gradient<kWarps>(in, memory, role, first_pixel);
    first_pixel += gridDim.x * kTilePixels;
    if (first_pixel < in.pixels) copy_tile_async<kWarps>(in, memory, role, first_pixel);
  }
  add_totals<kWarps>(role, in.channels, gradients, conv1, totals);
}

}  // namespace

void backward_conv1(const BlockBuffer& buffer, const Layer& layer, const Bf16* bottleneck,
                    const Bf16* bottleneck_gradient, NormGradient norm2, Bf16* gradient, NormGradient norm1,
                    WeightGradient conv1, cudaStream_t stream) {
  const int channels = layer.channels;
  const SharedMemory memory(channels);
  const int pixels = buffer.pixels(), bytes = memory.layout.bytes();
  const auto launch = [&](auto kernel, int warps) {
    allow_shared_memory(kernel, bytes);
    const int grid = std::min(divide_up(pixels, kTilePixels), 16 / warps * multiprocessors());
    const Arguments in{buffer, bottleneck, bottleneck_gradient, gradient, channels, pixels};
    kernel<<<grid, warps * kWarp, bytes, stream>>>(in, memory, layer, norm2, conv1, totals(norm1));
    check_launch("backward_conv1");
  };
  switch (divide_up(divide_up(channels, kOctet), 8)) {  // octets per warp, with 8 warps
    case 1:
      return launch(backward_conv1_kernel<8, 1>, 8);
    case 2:
      return launch(backward_conv1_kernel<8, 2>, 8);
    case 3:
      return launch(backward_conv1_kernel<8, 3>, 8);
    case 4:
      return launch(backward_conv1_kernel<8, 4>, 8);
    default:  // two thread blocks do not fit on a multiprocessor: one of 16 warps
      return launch(backward_conv1_kernel<16, 3>, 16);
  }
}

}  // namespace poem::cuda
