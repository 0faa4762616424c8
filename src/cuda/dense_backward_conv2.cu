// The backward pass of a layer's 3×3 convolution, conv2.
//
//   reads    bottleneck            pixels × 48   y, the output of conv1
//            gradient, buffer.x    pixels × 12   for d, the gradient of the 12 channels that the layer wrote
//   writes   bottleneck_gradient   pixels × 48   g, the gradient of norm2's output, 0 where the ReLU is off
//   adds to  conv2                 12 × 9 × 48   the gradient of the weights
//            totals                48 each       norm2's Σg and Σg·x̂
//
// With a = relu(norm2(y)), for pixel p, tap t, output o of 12 and channel c of 48:
//
//   forward                           out(p, o)   = Σ over t, c   a(p + t, c) · weight(o, t, c)
//   step 1, gradient of the input     da(p, c)    = Σ over t, o   d(p − t, o) · weight(o, t, c)
//   step 2, gradient of the weights   dw(o, t, c) = Σ over p      d(p, o) · a(p + t, c)
//
// A thread block has 9 warps and walks over tiles (cuda/tile.cuh). It keeps a and d of one bordered tile in
// shared memory, where both steps read them. The warps share the work of the steps in different ways:
//
//   step 1: a warp takes 16 pixels at a time           step 2: a warp takes one of the 9 taps
//
//                48 channels                                          48 channels
//              +-------------+                                      +-------------+
//    pixel   0 |   warp 0    |                          12 outputs  |   warp t    |
//           16 |   warp 1    |                          (+ 4 zeros) |   = tap t   |
//           32 |   warp 2    |                                      +-------------+
//          ... |    ...      |
//              +-------------+
//    a sum over taps, stored tile by tile               a sum over pixels, in registers until the end
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

constexpr int kThreads = kTaps * kWarp;

struct Constants {  // per channel
  float scale[kBottleneck], shift[kBottleneck], mean[kBottleneck], inverse_deviation[kBottleneck];  // norm2
  float slope[kGrowth], constant[kGrowth];  // Correction of the layer's own channels
};

struct SharedMemory {
  SharedLayout layout;
  SharedArray<Bf16> active;    // a: bordered tile × 48, kBottleneckStride apart
  SharedArray<Bf16> gradient;  // d: bordered tile × 16, kGrowthStride apart
  SharedArray<Bf16> weight;    // 48 × 9 × 16; at the end the sums of the warps
  BorderedIndex index;
  SharedArray<Constants> constants;
  __host__ __device__ explicit SharedMemory(const Tile& tile)
      : active(layout.add<Bf16>(tile.bordered_pixels() * kBottleneckStride)),
        gradient(layout.add<Bf16>(tile.bordered_pixels() * kGrowthStride)),
        weight(layout.add<Bf16>(kConv2Weights)),
        index(tile, layout),
        constants(layout.add<Constants>(1)) {}
};

struct Arguments {  // what the steps on a tile read and write
  BlockBuffer buffer;
  const Bf16 *bottleneck, *gradient;
  Bf16* bottleneck_gradient;
  Tile tile;
  int pixels;  // of all images
};

__device__ __forceinline__ void copy_tile_async(const Arguments& in, const SharedMemory& memory,
                                                int first_pixel) {
  copy_bottleneck_async(in.tile, memory.index, in.bottleneck, first_pixel, in.pixels, memory.active.get());
}

// Fills shared memory except for the tiles, and starts to copy the first one.
__device__ __forceinline__ void prepare(const Arguments& in, const SharedMemory& memory, const Layer& layer,
                                        const NormReaders& readers, int first_pixel) {
  memory.index.fill(in.tile);
  fill_with_zeros(memory.active.get(), in.tile.bordered_pixels() * kBottleneckStride * sizeof(Bf16));
  fill_with_zeros(memory.gradient.get(), in.tile.bordered_pixels() * kGrowthStride * sizeof(Bf16));
  __syncthreads();
  copy_tile_async(in, memory, first_pixel);
  constexpr int kWidth = kTaps * kPaddedGrowth;
  copy_rows_async(memory.weight.get(), kWidth, layer.conv2_transposed, kWidth, kBottleneck, kWidth);
  Constants& constants = *memory.constants.get();
  const Norm& norm2 = layer.norm2;
  for (int i = threadIdx.x; i < kBottleneck; i += blockDim.x) {
    const Moments m = moments(norm2, i);
    constants.mean[i] = m.mean;
    constants.inverse_deviation[i] = m.inverse_deviation;
    constants.scale[i] = norm2.weight[i] * m.inverse_deviation;
    constants.shift[i] = norm2.bias[i] - m.mean * constants.scale[i];
  }
  for (int i = threadIdx.x; i < kGrowth; i += blockDim.x) {
    const Correction c = correction(readers, i);
    constants.slope[i] = c.slope;
    constants.constant[i] = c.constant;
  }
  __syncthreads();
}

// Brings d of a tile and the rows next to it: the gradient that was stored for the layer's channels, and its
// correction (cuda/norm.cuh).
__device__ __forceinline__ void load_gradient(const Arguments& in, const SharedMemory& memory, int channels,
                                              int first_pixel) {
  const Constants& constants = *memory.constants.get();
  Bf16* to = memory.gradient.get();
  const PixelRange range = pixels_read(in.tile, first_pixel);
  clear_rows_outside_image<kGrowthStride>(in.tile, first_pixel, to);
  constexpr int kPairs = kGrowth / 2;  // of channels
  constexpr int kBatch = 2;            // pairs that a thread loads before it uses the first
  const int count = (range.end - range.begin) * kPairs;
  for (int begin = threadIdx.x; begin < count; begin += kBatch * blockDim.x) {
    uint32_t x[kBatch], stored[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int i = begin + k * blockDim.x, pixel = first_pixel + range.begin + i / kPairs;
      if (i >= count || pixel >= in.pixels) continue;
      const int64_t at = static_cast<int64_t>(pixel) * in.buffer.stride + channels + i % kPairs * 2;
      x[k] = load_as<uint32_t>(in.buffer.x + at);
      stored[k] = load_as<uint32_t>(in.gradient + at);
    }
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int i = begin + k * blockDim.x, pixel = range.begin + i / kPairs, channel = i % kPairs * 2;
      if (i >= count) break;
      uint32_t d = 0;
      if (first_pixel + pixel < in.pixels)
        d = pack(
            low(stored[k]) + low(x[k]) * constants.slope[channel] + constants.constant[channel],
            high(stored[k]) + high(x[k]) * constants.slope[channel + 1] + constants.constant[channel + 1]);
      store_as(to + memory.index[pixel] * kGrowthStride + channel, d);
    }
  }
}

// Step 1 for the 16 pixels from `begin` on: sum = Σ over taps of d(pixel − tap) · weight(tap).
__device__ __forceinline__ void multiply_taps(const Arguments& in, const SharedMemory& memory,
                                              const Role& role, int begin,
                                              float (&sum)[kBottleneckOctets][4]) {
  const Bf16* weight = memory.weight.get();
  const int pixel = min(begin + role.row, in.tile.pixels() - 1);
  const Bf16* at = memory.gradient.get() + memory.index[pixel] * kGrowthStride + role.column;
  for (int tap = 0; tap < kTaps; ++tap) {
    uint32_t d[4];
    load_matrices(d, at - in.tile.tap_offset(tap) * kGrowthStride);
#pragma unroll
    for (int octet = 0; octet < kBottleneckOctets; ++octet) {
      const uint2 w = load_as<uint2>(weight + ((kOctet * octet + role.group) * kTaps + tap) * kPaddedGrowth +
                                     4 * role.member);
      multiply_add(sum[octet], d, w.x, w.y);
    }
  }
}

// Then g is da where norm2's ReLU is on. Writes g and adds it to Σg and Σg·x̂.
__device__ __forceinline__ void store_through_relu(const Arguments& in, const SharedMemory& memory,
                                                   const Role& role, int first_pixel, int begin,
                                                   const float (&da)[kBottleneckOctets][4],
                                                   ChannelSums<kBottleneckOctets>& sums) {
  const Constants& norm2 = *memory.constants.get();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int pixel = begin + 8 * half + role.group;
    if (pixel >= in.tile.pixels() || first_pixel + pixel >= in.pixels) continue;
    const int64_t row = static_cast<int64_t>(first_pixel + pixel) * kBottleneck + 2 * role.member;
#pragma unroll
    for (int octet = 0; octet < kBottleneckOctets; ++octet) {
      const int channel = role.channel(octet);
      const uint32_t y = load_as<uint32_t>(in.bottleneck + row + kOctet * octet);
      const bool on0 = low(y) * norm2.scale[channel] + norm2.shift[channel] > 0,
                 on1 = high(y) * norm2.scale[channel + 1] + norm2.shift[channel + 1] > 0;
      const uint32_t g = pack(on0 ? da[octet][2 * half] : 0.0f, on1 ? da[octet][2 * half + 1] : 0.0f);
      store_as(in.bottleneck_gradient + row + kOctet * octet, g);
      sums.first[octet][0] += low(g);
      sums.first[octet][1] += high(g);
      sums.second[octet][0] += low(g) * (low(y) - norm2.mean[channel]) * norm2.inverse_deviation[channel];
      sums.second[octet][1] +=
          high(g) * (high(y) - norm2.mean[channel + 1]) * norm2.inverse_deviation[channel + 1];
    }
  }
}

// Step 2 for this warp's tap: dᵀ (16 × pixels) · a at the tap (pixels × 48). Behind the last pixel of the
// tile d comes from the border's first pixel, which is zero.
__device__ __forceinline__ void add_weight_gradient(const Arguments& in, const SharedMemory& memory,
                                                    const Role& role, float (&sum)[kBottleneckOctets][4]) {
  const int pixels = in.tile.pixels(), tap_offset = in.tile.tap_offset(role.warp);
  for (int begin = 0; begin < pixels; begin += kInner) {
    const int pixel_d = begin + role.transposed_row, pixel_a = min(begin + role.row, pixels - 1);
    const int at_d = pixel_d < pixels ? memory.index[pixel_d] : 0, at_a = memory.index[pixel_a] + tap_offset;
    uint32_t d[4];
    load_transposed(d, memory.gradient.get() + at_d * kGrowthStride + role.transposed_column);
#pragma unroll
    for (int octet = 0; octet < kBottleneckOctets; octet += 2) {
      uint32_t a[4];  // two octets
      load_transposed(a, memory.active.get() + at_a * kBottleneckStride + role.column + kOctet * octet);
      multiply_add(sum[octet], d, a[0], a[1]);
      multiply_add(sum[octet + 1], d, a[2], a[3]);
    }
  }
}

__device__ __forceinline__ void add_totals(const SharedMemory& memory, const Role& role,
                                           const ChannelSums<kBottleneckOctets>& norm2,
                                           const float (&weight_gradient)[kBottleneckOctets][4],
                                           const WeightGradient& conv2, const GradientTotals& totals) {
  // Nobody needs the weights in shared memory any more.
  add_channel_sums(norm2, kBottleneck, reinterpret_cast<float*>(memory.weight.get()), totals);
  const int tap = role.warp;
#pragma unroll
  for (int octet = 0; octet < kBottleneckOctets; ++octet) {
    const int channel = role.channel(octet);
    const float(&sum)[4] = weight_gradient[octet];
    add_pair(conv2, (role.group * kTaps + tap) * kBottleneck + channel, sum[0], sum[1]);
    if (role.group + 8 < kGrowth)
      add_pair(conv2, ((role.group + 8) * kTaps + tap) * kBottleneck + channel, sum[2], sum[3]);
  }
}

// This kernel has no register to spare. __grid_constant__ makes the compiler read an argument where it is
// needed instead of keeping it.
__global__ void __launch_bounds__(kThreads, 2)
    backward_conv2_kernel(const __grid_constant__ Arguments in, const __grid_constant__ SharedMemory memory,
                          Layer layer, NormReaders readers, WeightGradient conv2, GradientTotals totals) {
  const Role role;
  const Constants& constants = *memory.constants.get();
  int first_pixel = blockIdx.x * in.tile.pixels();
  prepare(in, memory, layer, readers, first_pixel);

  ChannelSums<kBottleneckOctets> norm2;  // Σg and Σg·x̂
  float weight_gradient[kBottleneckOctets][4] = {};
  while (first_pixel < in.pixels) {
    load_gradient(in, memory, layer.channels, first_pixel);
    activate_bottleneck(in.tile, memory.index, first_pixel, in.pixels, constants.scale, constants.shift,
                        memory.active.get());
    __syncthreads();
    for (int begin = role.warp * kStrip; begin < in.tile.pixels(); begin += kTaps * kStrip) {
      float da[kBottleneckOctets][4] = {};
      multiply_taps(in, memory, role, begin, da);
      store_through_relu(in, memory, role, first_pixel, begin, da, norm2);
    }
    add_weight_gradient(in, memory, role, weight_gradient);
    __syncthreads();
    first_pixel += gridDim.x * in.tile.pixels();
    if (first_pixel < in.pixels) copy_tile_async(in, memory, first_pixel);
  }
  add_totals(memory, role, norm2, weight_gradient, conv2, totals);
}

}  // namespace

void backward_conv2(const BlockBuffer& buffer, const Layer& layer, const Bf16* bottleneck,
                    const Bf16* gradient, const NormReaders& readers, Bf16* bottleneck_gradient,
                    NormGradient norm2, WeightGradient conv2, cudaStream_t stream) {
  const Tile tile = choose_tile(buffer, [](const Tile& t) { return SharedMemory(t).layout.bytes(); });
  const SharedMemory memory(tile);
  const int pixels = buffer.pixels(), bytes = memory.layout.bytes();
  allow_shared_memory(backward_conv2_kernel, bytes);
  const int grid = std::min(tile.count(pixels), 2 * multiprocessors());
  backward_conv2_kernel<<<grid, kThreads, bytes, stream>>>(
      {buffer, bottleneck, gradient, bottleneck_gradient, tile, pixels}, memory, layer, readers, conv2,
      totals(norm2));
  check_launch("backward_conv2");
}

}  // namespace poem::cuda
