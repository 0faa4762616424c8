// Inference of a layer: both convolutions in one kernel, so that the bottleneck never leaves shared memory.
//
//   reads    buffer.x   pixels × C    the channels that the layer reads
//   writes   buffer.x   pixels × 12   the new channels, behind those
//
// A thread block walks over tiles (cuda/tile.cuh). For a tile of two rows:
//
//   buffer.x                         shared memory:                buffer.x
//   rows of C                        bordered tile × 48            12 per pixel
//
//   row above  . . . . . .           b . . . . . . b
//   tile       . . . . . .   conv1   b . . . . . . b     conv2     . . . . . .
//              . . . . . .   ---->   b . . . . . . b     ---->     . . . . . .
//   row below  . . . . . .   ReLU    b . . . . . . b
//
// conv2 reads the rows above and below, so conv1 computes these for each of the two tiles they touch.
#include <algorithm>

#include "cuda/convolve.cuh"
#include "cuda/dense.h"
#include "cuda/launch.cuh"
#include "cuda/norm.cuh"
#include "cuda/shared_memory.cuh"
#include "cuda/tensor_core.cuh"
#include "cuda/tile.cuh"

namespace poem::cuda {
namespace {

struct SharedMemory {
  SharedLayout layout;
  SharedArray<Bf16> conv1;          // 48 × conv1_stride()
  SharedArray<Bf16> conv2;          // 16 × kConv2Depth
  SharedArray<float> scale, shift;  // norm1: C, rounded up to a multiple of kChunk
  SharedArray<float> bias;          // norm2's shift, 48; its scale is folded into conv1
  BorderedIndex index;
  SharedArray<Bf16> bottleneck;  // bordered tile × 48, kBottleneckStride apart
  __host__ __device__ SharedMemory(int channels, const Tile& tile)
      : conv1(layout.add<Bf16>(kBottleneck * conv1_stride(channels))),
        conv2(layout.add<Bf16>(kConv2Weights)),
        scale(layout.add<float>(round_up(channels, kChunk))),
        shift(layout.add<float>(round_up(channels, kChunk))),
        bias(layout.add<float>(kBottleneck)),
        index(tile, layout),
        bottleneck(layout.add<Bf16>(tile.bordered_pixels() * kBottleneckStride)) {}
};

__device__ __forceinline__ void prepare(const SharedMemory& memory, const Layer& layer, const Tile& tile) {
  copy_conv1_async(layer, memory.conv1.get());
  copy_conv2_async(layer, memory.conv2.get());
  load_norm(layer.norm1, layer.channels, round_up(layer.channels, kChunk), memory.scale.get(),
            memory.shift.get());
  for (int i = threadIdx.x; i < kBottleneck; i += kConvolveThreads)
    memory.bias[i] = affine(layer.norm2, i).shift;
  memory.index.fill(tile);
  fill_with_zeros(memory.bottleneck.get(), tile.bordered_pixels() * kBottleneckStride * sizeof(Bf16));
  wait_for_copies();
  __syncthreads();
}

// conv1 and ReLU of a tile and the rows next to it, into shared memory.
__device__ __forceinline__ void fill_bottleneck(const SharedMemory& memory, const Role& role,
                                                const BlockBuffer& buffer, int channels, const Tile& tile,
                                                int first_pixel, int pixels) {
  const PixelRange range = pixels_read(tile, first_pixel);
  clear_rows_outside_image<kBottleneckStride>(tile, first_pixel, memory.bottleneck.get());
  for (int begin = range.begin + role.warp * kWarpPixels; begin < range.end;
       begin += kConvolveWarps * kWarpPixels) {
    const Bf16* rows[kLanePixels];
    float sum[kStrips][kBottleneckOctets][4] = {};
#pragma unroll
    for (int i = 0; i < kLanePixels; ++i) {
      const int pixel = min(first_pixel + min(begin + 8 * i + role.group, range.end - 1), pixels - 1);
      rows[i] = buffer.x + static_cast<int64_t>(pixel) * buffer.stride;
    }
    multiply_conv1(role, rows, channels, memory.scale.get(), memory.shift.get(), memory.conv1.get(), sum);
#pragma unroll
    for (int i = 0; i < kLanePixels; ++i) {
      const int pixel = begin + 8 * i + role.group;
      if (pixel >= range.end) continue;
      Bf16* to = memory.bottleneck.get() + memory.index[pixel] * kBottleneckStride + 2 * role.member;
#pragma unroll
      for (int octet = 0; octet < kBottleneckOctets; ++octet) {
        const float *pair = sum[i / 2][octet] + i % 2 * 2, *bias = memory.bias.get() + role.channel(octet);
        store_as(to + kOctet * octet, pack(fmaxf(pair[0] + bias[0], 0.0f), fmaxf(pair[1] + bias[1], 0.0f)));
      }
    }
  }
}

__global__ void __launch_bounds__(kConvolveThreads, 2)
    infer_kernel(BlockBuffer buffer, Layer layer, Tile tile, int pixels) {
  const Role role;
  const SharedMemory memory(layer.channels, tile);
  prepare(memory, layer, tile);
  for (int first_pixel = blockIdx.x * tile.pixels(); first_pixel < pixels;
       first_pixel += gridDim.x * tile.pixels()) {
    fill_bottleneck(memory, role, buffer, layer.channels, tile, first_pixel, pixels);
    __syncthreads();
    convolve_tile(role, tile, memory.index, memory.bottleneck.get(), memory.conv2.get(), first_pixel, pixels,
                  [&](int pixel, int channel, float first, float second) {
                    store_as(
                        buffer.x + static_cast<int64_t>(pixel) * buffer.stride + layer.channels + channel,
                        pack(first, second));
                  });
    __syncthreads();
  }
}

}  // namespace

void infer_layer(const BlockBuffer& buffer, const Layer& layer, cudaStream_t stream) {
  constexpr int kCache = 32 * 1024;  // warps read parts of cache lines, and their other parts soon after
  const Tile tile = choose_tile(
      buffer, [&](const Tile& t) { return SharedMemory(layer.channels, t).layout.bytes(); }, kCache);
  const int pixels = buffer.pixels(), bytes = SharedMemory(layer.channels, tile).layout.bytes();
  allow_shared_memory(infer_kernel, bytes);
  const int grid = std::min(tile.count(pixels), 2 * multiprocessors());
  infer_kernel<<<grid, kConvolveThreads, bytes, stream>>>(buffer, layer, tile, pixels);
  check_launch("infer_layer");
}

}  // namespace poem::cuda
