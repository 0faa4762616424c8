// The forward pass of a layer in training. There is one kernel per convolution, because norm2 needs
// statistics of all that conv1 writes.
//
//   forward_conv1   reads    buffer.x     pixels × C    the channels that the layer reads
//                   writes   bottleneck   pixels × 48   the output of conv1
//   forward_conv2   reads    bottleneck   pixels × 48
//                   writes   buffer.x     pixels × 12   the new channels, behind those
//
// Both also sum Σx and Σx² of each channel that they write, after rounding to bfloat16.
//
// forward_conv1 needs no tile: a warp takes 32 pixels at a time, wherever they lie in their images.
// forward_conv2 brings tiles of the bottleneck into shared memory, with a border (cuda/tile.cuh):
//
//   buffer.x                  bottleneck               shared memory:          buffer.x
//   rows of C                 rows of 48               bordered tile × 48      12 per pixel
//
//   warp 0, 32 pixels         . . . . . .  row above   b . . . . . . b
//   warp 1, 32 pixels  conv1  . . . . . .  tile  norm2 b . . . . . . b  conv2  . . . . . .
//   warp 2, 32 pixels  ---->  . . . . . .        ----> b . . . . . . b  ---->  . . . . . .
//         ...                 . . . . . .  row below   b . . . . . . b
#include <algorithm>

#include "cuda/convolve.cuh"
#include "cuda/dense.h"
#include "cuda/launch.cuh"
#include "cuda/norm.cuh"
#include "cuda/shared_memory.cuh"
#include "cuda/tensor_core.cuh"
#include "cuda/tile.cuh"
#include "cuda/totals.cuh"

namespace poem::cuda {
namespace {

// Adds one pixel's pair of channels, after rounding, to Σx and Σx².
template <int kOctets>
__device__ __forceinline__ void add_to_statistics(uint32_t pair, int octet, ChannelSums<kOctets>& sums) {
  sums.first[octet][0] += low(pair), sums.first[octet][1] += high(pair);
  sums.second[octet][0] += low(pair) * low(pair), sums.second[octet][1] += high(pair) * high(pair);
}

struct Conv1Memory {
  SharedLayout layout;
  SharedArray<Bf16> weight;         // 48 × conv1_stride(); at the end the sums of the warps
  SharedArray<float> scale, shift;  // norm1: C, rounded up to a multiple of kChunk
  __host__ __device__ explicit Conv1Memory(int channels)
      : weight(layout.add<Bf16>(kBottleneck * conv1_stride(channels))),
        scale(layout.add<float>(round_up(channels, kChunk))),
        shift(layout.add<float>(round_up(channels, kChunk))) {}
};

__global__ void __launch_bounds__(kConvolveThreads, 2)
    forward_conv1_kernel(BlockBuffer buffer, Layer layer, Bf16* bottleneck, StatisticTotals totals,
                         int pixels) {
  const Role role;
  const Conv1Memory memory(layer.channels);
  const int warps = blockDim.x / kWarp;
  copy_conv1_async(layer, memory.weight.get());
  load_norm(layer.norm1, layer.channels, round_up(layer.channels, kChunk), memory.scale.get(),
            memory.shift.get());
  wait_for_copies();
  __syncthreads();

  ChannelSums<kBottleneckOctets> statistics;
  for (int begin = (blockIdx.x * warps + role.warp) * kWarpPixels; begin < pixels;
       begin += gridDim.x * warps * kWarpPixels) {
    const Bf16* rows[kLanePixels];
    float sum[kStrips][kBottleneckOctets][4] = {};
#pragma unroll
    for (int i = 0; i < kLanePixels; ++i)
      rows[i] = buffer.x + static_cast<int64_t>(min(begin + 8 * i + role.group, pixels - 1)) * buffer.stride;
    multiply_conv1(role, rows, layer.channels, memory.scale.get(), memory.shift.get(), memory.weight.get(),
                   sum);
#pragma unroll
    for (int i = 0; i < kLanePixels; ++i) {
      const int pixel = begin + 8 * i + role.group;
      if (pixel >= pixels) continue;
      Bf16* to = bottleneck + static_cast<int64_t>(pixel) * kBottleneck + 2 * role.member;
#pragma unroll
      for (int octet = 0; octet < kBottleneckOctets; ++octet) {
        const uint32_t pair = pack(sum[i / 2][octet][i % 2 * 2], sum[i / 2][octet][i % 2 * 2 + 1]);
        store_as(to + kOctet * octet, pair);
        add_to_statistics(pair, octet, statistics);
      }
    }
  }
  add_channel_sums(statistics, kBottleneck, reinterpret_cast<float*>(memory.weight.get()), totals);
}

struct Conv2Memory {
  SharedLayout layout;
  SharedArray<Bf16> weight;         // 16 × kConv2Depth; at the end the sums of the warps
  SharedArray<float> scale, shift;  // norm2: 48
  SharedArray<Bf16> bottleneck;     // bordered tile × 48, kBottleneckStride apart
  BorderedIndex index;
  __host__ __device__ explicit Conv2Memory(const Tile& tile)
      : weight(layout.add<Bf16>(kConv2Weights)),
        scale(layout.add<float>(kBottleneck)),
        shift(layout.add<float>(kBottleneck)),
        bottleneck(layout.add<Bf16>(tile.bordered_pixels() * kBottleneckStride)),
        index(tile, layout) {}
};

__global__ void __launch_bounds__(kConvolveThreads, 2)
    forward_conv2_kernel(BlockBuffer buffer, Layer layer, const Bf16* bottleneck, StatisticTotals totals,
                         Tile tile, int pixels) {
  const Role role;
  const Conv2Memory memory(tile);
  memory.index.fill(tile);
  fill_with_zeros(memory.bottleneck.get(), tile.bordered_pixels() * kBottleneckStride * sizeof(Bf16));
  copy_conv2_async(layer, memory.weight.get());
  load_norm(layer.norm2, kBottleneck, kBottleneck, memory.scale.get(), memory.shift.get());

  ChannelSums<kGrowthOctets> statistics;
  for (int first_pixel = blockIdx.x * tile.pixels(); first_pixel < pixels;
       first_pixel += gridDim.x * tile.pixels()) {
    __syncthreads();
    copy_bottleneck_async(tile, memory.index, bottleneck, first_pixel, pixels, memory.bottleneck.get());
    activate_bottleneck(tile, memory.index, first_pixel, pixels, memory.scale.get(), memory.shift.get(),
                        memory.bottleneck.get());
    __syncthreads();
    convolve_tile(
        role, tile, memory.index, memory.bottleneck.get(), memory.weight.get(), first_pixel, pixels,
        [&](int pixel, int channel, float first, float second) {
          const uint32_t pair = pack(first, second);
          store_as(buffer.x + static_cast<int64_t>(pixel) * buffer.stride + layer.channels + channel, pair);
          add_to_statistics(pair, channel / kOctet, statistics);
        });
  }
  add_channel_sums(statistics, kGrowth, reinterpret_cast<float*>(memory.weight.get()), totals);
}

}  // namespace

void forward_conv1(const BlockBuffer& buffer, const Layer& layer, Bf16* bottleneck, Sums sums,
                   cudaStream_t stream) {
  const int pixels = buffer.pixels(), bytes = Conv1Memory(layer.channels).layout.bytes();
  allow_shared_memory(forward_conv1_kernel, bytes);
  // Few pixels: small thread blocks, so that every multiprocessor gets one.
  const int warps = std::clamp(pixels / kWarpPixels / multiprocessors(), 2, kConvolveWarps);
  const int grid = std::min(divide_up(pixels, warps * kWarpPixels), 2 * multiprocessors());
  forward_conv1_kernel<<<grid, warps * kWarp, bytes, stream>>>(buffer, layer, bottleneck, totals(sums),
                                                               pixels);
  check_launch("forward_conv1");
}

void forward_conv2(const BlockBuffer& buffer, const Layer& layer, const Bf16* bottleneck, Sums sums,
                   cudaStream_t stream) {
  const Tile tile = choose_tile(buffer, [](const Tile& t) { return Conv2Memory(t).layout.bytes(); });
  const int pixels = buffer.pixels(), bytes = Conv2Memory(tile).layout.bytes();
  allow_shared_memory(forward_conv2_kernel, bytes);
  const int grid = std::min(tile.count(pixels), 2 * multiprocessors());
  forward_conv2_kernel<<<grid, kConvolveThreads, bytes, stream>>>(buffer, layer, bottleneck, totals(sums),
                                                                  tile, pixels);
  check_launch("forward_conv2");
}

}  // namespace poem::cuda
