// What the kernels of a dense block share: matrix fragments, BatchNorm on load, and tiles with a border.
#pragma once
#include <cuda_bf16.h>

#include "cuda/dense.h"

namespace poem::cuda {

constexpr int kWarp = 32;
constexpr float kEpsilon = 1e-5f;
constexpr unsigned kAll = 0xffffffff;

inline int up_to(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

__device__ inline float low(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ inline float high(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }
__device__ inline uint32_t pack(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
__device__ inline Bf16 round_off(float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }

// sum += a · b for a 16×16 and b 16×8. Lane 4g + t holds of a the rows g and g + 8, of b the column g, of sum
// the rows g and g + 8 in columns 2t and 2t + 1. Which channels stand at which place of the inner dimension
// is free as long as a and b agree: lanes take neighbouring channels, so that they load 8 or 16 bytes at
// once.
__device__ inline void multiply_add(float (&sum)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                    uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}
// 8×8 matrices from shared memory, one row of 16 bytes a lane; transposed where the inner dimension runs
// down.
__device__ inline void load_matrices(uint32_t (&m)[4], const Bf16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(shared_address(row)));
}
__device__ inline void load_transposed(uint32_t (&m)[4], const Bf16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(shared_address(row)));
}
__device__ inline void load_transposed(uint32_t (&m)[2], const Bf16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(m[0]), "=r"(m[1])
               : "r"(shared_address(row)));
}

// 16 bytes from device to shared memory without passing through registers; wait_for_copies() ends a batch.
__device__ inline void copy_async(Bf16* shared, const Bf16* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :
               : "r"(shared_address(shared)), "l"(global)
               : "memory");
}
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" : : : "memory"); }

struct Moments {
  float mean, inverse;  // inverse: 1 / standard deviation
};
__device__ inline Moments moments(const Norm& norm, int channel) {
  float mean = norm.first[channel], variance = norm.second[channel];
  if (norm.count > 0) {
    mean /= norm.count;
    variance = fmaxf(variance / norm.count - mean * mean, 0.0f);
  }
  return {mean, rsqrtf(variance + kEpsilon)};
}

struct Affine {  // BatchNorm as x · scale + shift
  float scale, shift;
};
__device__ inline Affine affine(const Norm& norm, int channel) {
  const Moments m = moments(norm, channel);
  const float scale = norm.weight[channel] * m.inverse;
  return {scale, norm.bias[channel] - m.mean * scale};
}

// The gradient of a channel from its buffer: g − mean − x̂ · slope, as x · a + b to be added to g.
struct Correction {
  float a, b;
};
__device__ inline Correction correction(const Norm& norm, const Later& later, int channel) {
  const Moments m = moments(norm, channel);
  float mean = 0, slope = 0;
  for (int i = 0; i < later.count; ++i) {
    const float factor = later.weight[i][channel] * m.inverse / norm.count;
    mean += factor * later.bias_sum[i][channel];
    slope += factor * later.weight_sum[i][channel];
  }
  return {-slope * m.inverse, slope * m.inverse * m.mean - mean};
}

// What lies behind the channels of a row may be anything: scale and shift are 0 there, and fmaxf(NaN, 0) is
// 0.
__device__ inline uint32_t activate(uint32_t pair, float scale0, float shift0, float scale1, float shift1) {
  return pack(fmaxf(low(pair) * scale0 + shift0, 0.0f), fmaxf(high(pair) * scale1 + shift1, 0.0f));
}

// Over the lanes that hold the same columns of a sum (all g of a t): every lane gets the total.
__device__ inline float add_rows(float x) {
  for (int step = 4; step < kWarp; step *= 2) x += __shfl_xor_sync(kAll, x, step);
  return x;
}

// A tile: some rows of an image, or several whole images, in shared memory with a border of one pixel.
struct Tile {
  int height, width;  // of an image
  int rows;           // of the tile
  int images;         // 1 unless rows is height
  int inner() const { return images * rows * width; }
  int bordered() const { return images * (rows + 2) * (width + 2); }
  int tiles(int pixels) const { return (pixels + inner() - 1) / inner(); }
};

// Where pixel `i` of the tile stands in it; −width … −1 and inner … inner + width − 1 are the rows above and
// below.
__device__ inline int place(const Tile& tile, int i) {
  const int row = (i + tile.width) / tile.width, column = i + tile.width - row * tile.width;
  if (tile.rows < tile.height) return row * (tile.width + 2) + column + 1;
  const int y = row - 1, image = y / tile.rows;
  return (image * (tile.rows + 2) + y % tile.rows + 1) * (tile.width + 2) + column + 1;
}

// The pixels a tile needs, counted from its first: those of the rows next to it too where the image has them.
struct Range {
  int begin, end;
};
__device__ inline Range range(const Tile& tile, int first_pixel) {
  const int inner = tile.images * tile.rows * tile.width;
  if (tile.rows == tile.height) return {0, inner};
  const int y = first_pixel / tile.width % tile.height;
  return {y == 0 ? 0 : -tile.width, y + tile.rows == tile.height ? inner : inner + tile.width};
}

// Rows above and below the image are zero. The border's columns and all of whole images' borders were never
// written.
template <int kChannels>
__device__ inline void clear_outside(const Tile& tile, int first_pixel, Bf16* to) {
  if (tile.rows == tile.height) return;
  const int y = first_pixel / tile.width % tile.height, words = (tile.width + 2) * kChannels / 2;
  auto* out = reinterpret_cast<uint32_t*>(to);
  for (int i = threadIdx.x; i < words; i += blockDim.x) {
    if (y == 0) out[i] = 0;
    if (y + tile.rows == tile.height) out[(tile.rows + 1) * words + i] = 0;
  }
}

__device__ inline void clear(void* to, int bytes) {
  auto* out = static_cast<uint32_t*>(to);
  for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) out[i] = 0;
}

// conv1's weights as bfloat16, rows `stride` apart, zeros behind the channels; each row times `factor` where
// there is one. Eight warps take six rows each, so that loads wait for each other as little as possible.
__device__ inline void load_conv1(const Layer& layer, const float* factor, int stride, Bf16* to) {
  constexpr int kRowsAWarp = 6;
  const int lane = threadIdx.x % kWarp, first = threadIdx.x / kWarp * kRowsAWarp;
#pragma unroll 2
  for (int channel = lane; channel < stride; channel += kWarp) {
#pragma unroll
    for (int i = 0; i < kRowsAWarp; ++i) {
      const int row = first + i;
      const float w = channel < layer.channels ? layer.conv1[row * layer.channels + channel] : 0.0f;
      to[row * stride + channel] = round_off(factor == nullptr ? w : w * factor[row]);
    }
  }
}

// relu(norm(middle)) of a tile and its border; scale and shift in shared memory. kBatch loads of a thread
// wait together: more hide the latency better, and need more registers.
template <int kBatch>
__device__ inline void load_middle(const Tile& tile, const Bf16* middle, int first_pixel, int pixels,
                                   const float* scale, const float* shift, Bf16* to) {
  constexpr int kParts = kBottleneck / 8;
  const Range r = range(tile, first_pixel);
  clear_outside<kBottleneck>(tile, first_pixel, to);
  const int count = (r.end - r.begin) * kParts;
  for (int begin = threadIdx.x; begin < count; begin += kBatch * blockDim.x) {
    uint4 in[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int i = begin + k * blockDim.x, pixel = first_pixel + r.begin + i / kParts;
      if (i < count && pixel < pixels)
        in[k] = *reinterpret_cast<const uint4*>(middle + static_cast<int64_t>(pixel) * kBottleneck +
                                                i % kParts * 8);
    }
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int i = begin + k * blockDim.x, pixel = r.begin + i / kParts, channel = i % kParts * 8;
      if (i >= count) break;
      uint4 out = {0, 0, 0, 0};
      const float *s = scale + channel, *b = shift + channel;
      if (first_pixel + pixel < pixels)
        out = {activate(in[k].x, s[0], b[0], s[1], b[1]), activate(in[k].y, s[2], b[2], s[3], b[3]),
               activate(in[k].z, s[4], b[4], s[5], b[5]), activate(in[k].w, s[6], b[6], s[7], b[7])};
      *reinterpret_cast<uint4*>(to + place(tile, pixel) * kBottleneck + channel) = out;
    }
  }
}

}  // namespace poem::cuda
