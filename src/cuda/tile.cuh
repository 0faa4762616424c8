// What the kernels of a dense block share: matrix fragments, BatchNorm on load, and tiles with a border.
#pragma once
#include <cuda_bf16.h>

#include "cuda/dense.h"

namespace poem::cuda {

constexpr int kWarp = 32;
constexpr float kEpsilon = 1e-5f;
constexpr unsigned kAll = 0xffffffff;

__host__ __device__ constexpr int up_to(int value, int multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

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
// The same by all threads, for the first `width` elements of rows that lie `from` elements apart and are to
// lie `to` apart; all multiples of 8.
__device__ inline void copy_rows(Bf16* shared, int to, const Bf16* global, int from, int rows, int width) {
  const int lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp;
  for (int row = threadIdx.x / kWarp; row < rows; row += warps)
    for (int i = 8 * lane; i < width; i += 8 * kWarp)
      copy_async(shared + row * to + i, global + row * from + i);
}

// Eight elements of a row that will be read on: the second-level cache gets what stands next to them too.
__device__ inline uint4 load_ahead(const Bf16* from) {
  uint4 x;
  asm("ld.global.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
      : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
      : "l"(from));
  return x;
}

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
#pragma unroll 4
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

// A pixel's channels in a tile: 48 of conv1's output, or 16 of a gradient, and 8 spare ones, so that eight
// rows of a matrix meet no bank twice.
constexpr int kMiddleStride = kBottleneck + 8, kOutStride = kPadded + 8;

// A tile: some rows of an image, or several whole images, in shared memory with a border of one pixel.
struct Tile {
  int height, width;  // of an image
  int rows;           // of the tile
  int images;         // 1 unless rows is height
  int inner() const { return images * rows * width; }
  int bordered() const { return images * (rows + 2) * (width + 2); }
  int tiles(int pixels) const { return (pixels + inner() - 1) / inner(); }
};

// Where each pixel of a tile stands in it, written down once: −width … −1 and inner … inner + width − 1 are
// the rows above and below.
class Places {
 public:
  static int bytes(const Tile& tile) { return up_to((tile.inner() + 2 * tile.width) * 2, 16); }
  __device__ Places(const Tile& tile, void* shared) : at_(static_cast<uint16_t*>(shared) + tile.width) {
    const int inner = tile.images * tile.rows * tile.width;
    for (int i = static_cast<int>(threadIdx.x) - tile.width; i < inner + tile.width; i += blockDim.x) {
      const int row = (i + tile.width) / tile.width - 1, column = i - row * tile.width;
      const int image = tile.rows < tile.height ? 0 : max(row, 0) / tile.rows, y = row - image * tile.rows;
      at_[i] = (image * (tile.rows + 2) + y + 1) * (tile.width + 2) + column + 1;
    }
  }
  __device__ int operator[](int i) const { return at_[i]; }

 private:
  uint16_t* at_;
};

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
template <int kStride>
__device__ inline void clear_outside(const Tile& tile, int first_pixel, Bf16* to) {
  if (tile.rows == tile.height) return;
  const int y = first_pixel / tile.width % tile.height, words = (tile.width + 2) * kStride / 2;
  auto* out = reinterpret_cast<uint32_t*>(to);
  for (int i = threadIdx.x; i < words; i += blockDim.x) {
    if (y == 0) out[i] = 0;
    if (y + tile.rows == tile.height) out[(tile.rows + 1) * words + i] = 0;
  }
}

__device__ inline void clear(void* to, int bytes) {
  auto* out = static_cast<uint4*>(to);
  for (int i = threadIdx.x; i < bytes / 16; i += blockDim.x) out[i] = {0, 0, 0, 0};
}

// Which 8 channels of conv1's output a thread has to do with, and for which pixels of a tile and its border
// it calls f(pixel): always the same.
constexpr int kPartsAPixel = kBottleneck / 8;
__device__ inline int my_channel() { return threadIdx.x % kPartsAPixel * 8; }
template <class Function>
__device__ inline void for_my_pixels(const Range& range, Function f) {
  const int mine = threadIdx.x / kPartsAPixel, step = blockDim.x / kPartsAPixel;
  if (mine == step) return;  // threads that are left over
  for (int pixel = range.begin + mine; pixel < range.end; pixel += step) f(pixel);
}

// A tile and its border of conv1's output into shared memory, asynchronously.
__device__ inline void copy_middle(const Tile& tile, const Places& places, const Bf16* middle, int first,
                                   int pixels, Bf16* to) {
  clear_outside<kMiddleStride>(tile, first, to);
  for_my_pixels(range(tile, first), [&](int pixel) {
    if (first + pixel < pixels)
      copy_async(to + places[pixel] * kMiddleStride + my_channel(),
                 middle + static_cast<int64_t>(first + pixel) * kBottleneck + my_channel());
  });
}

// relu(norm2(x)) in the place of each x that copy_middle() brought, zeros behind the last pixel. A thread
// waits for its own copies alone.
__device__ inline void activate_middle(const Tile& tile, const Places& places, int first, int pixels,
                                       const float* scale, const float* shift, Bf16* at) {
  float s[8], b[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) s[i] = scale[my_channel() + i], b[i] = shift[my_channel() + i];
  wait_for_copies();
  for_my_pixels(range(tile, first), [&](int pixel) {
    auto* x = reinterpret_cast<uint4*>(at + places[pixel] * kMiddleStride + my_channel());
    const uint4 in = *x;
    *x = first + pixel >= pixels
             ? uint4{0, 0, 0, 0}
             : uint4{activate(in.x, s[0], b[0], s[1], b[1]), activate(in.y, s[2], b[2], s[3], b[3]),
                     activate(in.z, s[4], b[4], s[5], b[5]), activate(in.w, s[6], b[6], s[7], b[7])};
  });
}

}  // namespace poem::cuda
