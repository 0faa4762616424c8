// A layer's two convolutions, as inference and the forward pass compute them. A warp multiplies 32 pixels
// at a time, two strips:
//
//   conv1 (1×1): 32 × C  ·  C × 48                          conv2 (3×3): for each tap, 32 × 48  ·  48 × 16
//
//            C channels, 32 at a time        48                    48 at the tap         12, padded to 16
//           +---------+---------+--     +-----------+             +-------------+        +-----------+
//   strip 0 | chunk 0 | chunk 1 | ..    |           |             |             |        |           |
//           |         |         |    -> | 6 octets  |             |             |   ->   | 2 octets  |
//   strip 1 |         |         |       |           |             |             |        |           |
//           +---------+---------+--     +-----------+             +-------------+        +-----------+
//            device memory               registers                 shared memory          registers
//
// conv1's lanes load from device memory themselves: of each chunk, member m takes the channels 8m … 8m + 7
// of four pixels. Both convolutions have their weights in shared memory.
#pragma once
#include <cstdint>

#include "cuda/dense.h"
#include "cuda/norm.cuh"
#include "cuda/shared_memory.cuh"
#include "cuda/tensor_core.cuh"
#include "cuda/tile.cuh"

namespace poem::cuda {

constexpr int kConvolveThreads = 256;
constexpr int kConvolveWarps = kConvolveThreads / kWarp;
constexpr int kStrips = 2;  // that a warp multiplies at a time
constexpr int kWarpPixels = kStrips * kStrip;
constexpr int kLanePixels = kWarpPixels / 8;  // a lane's pixels among these: 8·i + group
constexpr int kGrowthOctets = kPaddedGrowth / kOctet;
constexpr int kConv2Depth = kTaps * kBottleneck;  // products that conv2 sums per output

// Elements between rows of conv1's weights in shared memory: an odd multiple of 64 bytes, so that the lanes
// of a load meet no bank twice.
__host__ __device__ inline int conv1_stride(int channels) {
  return (divide_up(channels, kChunk) | 1) * kChunk;
}

__device__ __forceinline__ void copy_conv1_async(const Layer& layer, Bf16* to) {
  const int width = round_up(layer.channels, kChunk);
  copy_rows_async(to, conv1_stride(layer.channels), layer.conv1, width, kBottleneck, width);
}
__device__ __forceinline__ void copy_conv2_async(const Layer& layer, Bf16* to) {
  copy_rows_async(to, kConv2Depth, layer.conv2, kConv2Depth, kPaddedGrowth, kConv2Depth);
}

// BatchNorm as x · scale + shift, with zeros behind the last channel.
__device__ __forceinline__ void load_norm(const Norm& norm, int channels, int padded, float* scale,
                                          float* shift) {
  for (int i = threadIdx.x; i < padded; i += blockDim.x) {
    const Affine a = i < channels ? affine(norm, i) : Affine{0, 0};
    scale[i] = a.scale;
    shift[i] = a.shift;
  }
}

// Eight channels of a row. More of the row follows soon, so the second-level cache fetches 256 bytes at once.
__device__ __forceinline__ uint4 load_ahead(const Bf16* from) {
  uint4 x;
  asm("ld.global.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
      : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
      : "l"(from));
  return x;
}

// conv1 for the pixels of this lane, of which `rows` are the channels. Each chunk is loaded while the one
// before it is multiplied.
__device__ __forceinline__ void multiply_conv1(const Role& role, const Bf16* const (&rows)[kLanePixels],
                                               int channels, const float* scale, const float* shift,
                                               const Bf16* weight,
                                               float (&sum)[kStrips][kBottleneckOctets][4]) {
  const int chunks = divide_up(channels, kChunk), stride = conv1_stride(channels);
  uint4 next[kLanePixels];
#pragma unroll
  for (int i = 0; i < kLanePixels; ++i) next[i] = load_ahead(rows[i] + 8 * role.member);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    uint4 x[kLanePixels];
#pragma unroll
    for (int i = 0; i < kLanePixels; ++i) x[i] = next[i];
    const int channel = chunk * kChunk + 8 * role.member;
    if (chunk + 1 < chunks) {
#pragma unroll
      for (int i = 0; i < kLanePixels; ++i) next[i] = load_ahead(rows[i] + channel + kChunk);
    }
    float my_scale[8], my_shift[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) my_scale[i] = scale[channel + i], my_shift[i] = shift[channel + i];
    uint4 active[kLanePixels];
#pragma unroll
    for (int i = 0; i < kLanePixels; ++i) active[i] = activate(x[i], my_scale, my_shift);
#pragma unroll
    for (int octet = 0; octet < kBottleneckOctets; ++octet) {
      const uint4 w = load_as<uint4>(weight + (kOctet * octet + role.group) * stride + channel);
#pragma unroll
      for (int strip = 0; strip < kStrips; ++strip) {
        const uint4 &upper = active[2 * strip], &lower = active[2 * strip + 1];  // rows group and group + 8
        multiply_add(sum[strip][octet], {upper.x, lower.x, upper.y, lower.y}, w.x, w.y);
        multiply_add(sum[strip][octet], {upper.z, lower.z, upper.w, lower.w}, w.z, w.w);
      }
    }
  }
}

// conv2 for two strips of a bordered tile. Of each strip, this lane gives load_matrices() one row.
__device__ __forceinline__ void multiply_conv2(const Role& role, const Tile& tile,
                                               const Bf16* const (&rows)[kStrips], const Bf16* weight,
                                               float (&sum)[kStrips][kGrowthOctets][4]) {
  for (int tap = 0; tap < kTaps; ++tap) {
    const int offset = tile.tap_offset(tap) * kBottleneckStride;
#pragma unroll
    for (int channel = 0; channel < kBottleneck; channel += kInner) {
      uint32_t a[kStrips][4];
      uint2 w[kGrowthOctets];
#pragma unroll
      for (int strip = 0; strip < kStrips; ++strip) load_matrices(a[strip], rows[strip] + offset + channel);
#pragma unroll
      for (int octet = 0; octet < kGrowthOctets; ++octet)
        w[octet] = load_as<uint2>(weight + (kOctet * octet + role.group) * kConv2Depth + tap * kBottleneck +
                                  channel + 4 * role.member);
#pragma unroll
      for (int strip = 0; strip < kStrips; ++strip)
#pragma unroll
        for (int octet = 0; octet < kGrowthOctets; ++octet)
          multiply_add(sum[strip][octet], a[strip], w[octet].x, w[octet].y);
    }
  }
}

// conv2 of a bordered tile, by all warps. Calls store(pixel, channel, first, second) for each pixel, counted
// through all images, and each two neighbours of the 12 new channels.
template <class Store>
__device__ __forceinline__ void convolve_tile(const Role& role, const Tile& tile, const BorderedIndex& index,
                                              const Bf16* bordered, const Bf16* weight, int first_pixel,
                                              int all_pixels, Store store) {
  const int pixels = tile.pixels();
  for (int begin = role.warp * kWarpPixels; begin < pixels; begin += kConvolveWarps * kWarpPixels) {
    const Bf16* rows[kStrips];
    float sum[kStrips][kGrowthOctets][4] = {};
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) {
      const int pixel = min(begin + kStrip * strip + role.row, pixels - 1);
      rows[strip] = bordered + index[pixel] * kBottleneckStride + role.column;
    }
    multiply_conv2(role, tile, rows, weight, sum);
    const auto store_if_exists = [&](int pixel, int channel, float first, float second) {
      if (pixel < pixels && first_pixel + pixel < all_pixels)
        store(first_pixel + pixel, channel, first, second);
    };
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip)
#pragma unroll
      for (int octet = 0; octet < kGrowthOctets; ++octet) {
        const int pixel = begin + kStrip * strip + role.group, channel = role.channel(octet);
        if (channel >= kGrowth) continue;
        store_if_exists(pixel, channel, sum[strip][octet][0], sum[strip][octet][1]);
        store_if_exists(pixel + 8, channel, sum[strip][octet][2], sum[strip][octet][3]);
      }
  }
}

}  // namespace poem::cuda
