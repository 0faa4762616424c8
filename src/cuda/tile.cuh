// Tiles for the 3×3 convolution: some rows of an image, or several whole images, which a thread block keeps
// in shared memory with a border of one pixel. All arithmetic about tiles is here, for host and device.
//
//   rows = 2 of an image of width 4            images = 2, whole images of 2×4
//
//     b -4 -3 -2 -1  b   the row above           b  b  b  b  b  b
//     b  0  1  2  3  b                           b  0  1  2  3  b
//     b  4  5  6  7  b                           b  4  5  6  7  b
//     b  8  9 10 11  b   the row below           b  b  b  b  b  b
//                                                b  b  b  b  b  b
//                                                b  8  9 10 11  b
//                                                b 12 13 14 15  b
//                                                b  b  b  b  b  b
//
// The border b is zero, and so are the rows above and below if they lie outside the image. Pixels of a tile
// are counted from its first one, which is pixel `first_pixel` of all images.
//
//   const Tile tile = choose_tile(buffer, [](const Tile& t) { return SharedMemory(t).layout.bytes(); });
//   kernel<<<tile.count(buffer.pixels()), threads, bytes, stream>>>(tile);
#pragma once
#include <cstdint>

#include "cuda/dense.h"
#include "cuda/launch.cuh"
#include "cuda/norm.cuh"
#include "cuda/shared_memory.cuh"

namespace poem::cuda {

struct Tile {
  int image_height, width;
  int rows;    // of an image
  int images;  // 1 unless rows is image_height

  __host__ __device__ int pixels() const { return images * rows * width; }
  __host__ __device__ int bordered_width() const { return width + 2; }
  __host__ __device__ int bordered_pixels() const { return images * (rows + 2) * bordered_width(); }
  __host__ __device__ bool whole_images() const { return rows == image_height; }
  // From a pixel to the one under a tap of the convolution, in the bordered tile.
  __host__ __device__ int tap_offset(int tap) const { return (tap / 3 - 1) * bordered_width() + tap % 3 - 1; }
  int count(int all_pixels) const { return divide_up(all_pixels, pixels()); }
};

// The largest tile that still gives every multiprocessor two of them to work on, and of which two fit into
// its shared memory. `bytes(tile)` is the shared memory a thread block needs. `cache` is how many bytes of
// it, on a GPU that has plenty, are left to the first-level cache.
template <class Bytes>
Tile choose_tile(const BlockBuffer& buffer, Bytes bytes, int cache = 0) {
  static const int all = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  constexpr int kPlenty = 160 * 1024;
  const int room = (all < kPlenty ? all : all - cache) / 2 - 1024;
  int pixels = 64;
  while (pixels < 512 && pixels < buffer.pixels() / (2 * multiprocessors())) pixels *= 2;
  Tile best{buffer.height, buffer.width, 1, 1};
  for (int rows = 1; rows <= buffer.height; ++rows) {
    if (buffer.height % rows != 0) continue;
    const int most = rows < buffer.height ? 1 : buffer.images;
    for (int images = 1; images <= most; ++images) {
      const Tile tile{buffer.height, buffer.width, rows, images};
      if (tile.pixels() > pixels || bytes(tile) > room) break;
      if (tile.pixels() > best.pixels()) best = tile;
    }
  }
  return best;
}

// Elements from one pixel to the next in a tile of the bottleneck, and of a gradient of the new channels. The
// 8 spare ones put the rows that one load_matrices() reads into different banks.
constexpr int kBottleneckStride = kBottleneck + 8, kGrowthStride = kPaddedGrowth + 8;

// Where each pixel of a tile stands in the bordered tile: index[0] is bordered_width() + 1. The rows above
// and below count too: −width … −1, and pixels() … pixels() + width − 1. A table in shared memory saves the
// divisions.
class BorderedIndex {
 public:
  __host__ __device__ BorderedIndex(const Tile& tile, SharedLayout& layout)
      : entries_(layout.add<uint16_t>(tile.pixels() + 2 * tile.width)) {
    entries_.offset += tile.width * static_cast<int>(sizeof(uint16_t));  // that of pixel 0
  }
  __device__ void fill(const Tile& tile) const {
    for (int pixel = static_cast<int>(threadIdx.x) - tile.width; pixel < tile.pixels() + tile.width;
         pixel += blockDim.x) {
      const int row = (pixel + tile.width) / tile.width - 1, column = pixel - row * tile.width;
      const int image = tile.rows < tile.image_height ? 0 : max(row, 0) / tile.rows;
      const int row_of_image = row - image * tile.rows;
      entries_[pixel] = (image * (tile.rows + 2) + row_of_image + 1) * tile.bordered_width() + column + 1;
    }
  }
  __device__ int operator[](int pixel) const { return entries_[pixel]; }

 private:
  SharedArray<uint16_t> entries_;
};

// The pixels a tile's convolution reads: its own, and the rows next to it where the image has them.
struct PixelRange {
  int begin, end;
};
__device__ inline PixelRange pixels_read(const Tile& tile, int first_pixel) {
  if (tile.whole_images()) return {0, tile.pixels()};
  const int y = first_pixel / tile.width % tile.image_height;
  return {y == 0 ? 0 : -tile.width,
          y + tile.rows == tile.image_height ? tile.pixels() : tile.pixels() + tile.width};
}

// Zeros in the rows above and below a tile that lie outside the image. An earlier tile may have had pixels
// there, in contrast to the other parts of the border, which nobody writes after the kernel's start.
template <int kStride>
__device__ inline void clear_rows_outside_image(const Tile& tile, int first_pixel, Bf16* bordered) {
  if (tile.whole_images()) return;
  const int y = first_pixel / tile.width % tile.image_height, words = tile.bordered_width() * kStride / 2;
  auto* out = reinterpret_cast<uint32_t*>(bordered);
  for (int i = threadIdx.x; i < words; i += blockDim.x) {
    if (y == 0) out[i] = 0;
    if (y + tile.rows == tile.image_height) out[(tile.rows + 1) * words + i] = 0;
  }
}

// The bottleneck goes into a tile octet by octet. A thread always has the same octet of the same pixels, so
// that it can go on with what it copied itself before other threads are done. Calls f(pixel) for these
// pixels.
__device__ inline int my_bottleneck_channel() { return threadIdx.x % kBottleneckOctets * kOctet; }
template <class Function>
__device__ inline void for_my_pixels(const PixelRange& range, Function f) {
  const int mine = threadIdx.x / kBottleneckOctets, step = blockDim.x / kBottleneckOctets;
  if (mine == step) return;  // threads that are left over
  for (int pixel = range.begin + mine; pixel < range.end; pixel += step) f(pixel);
}

// Starts to copy a tile of the bottleneck, with the rows next to it, into shared memory.
__device__ inline void copy_bottleneck_async(const Tile& tile, const BorderedIndex& index,
                                             const Bf16* bottleneck, int first_pixel, int all_pixels,
                                             Bf16* bordered) {
  clear_rows_outside_image<kBottleneckStride>(tile, first_pixel, bordered);
  for_my_pixels(pixels_read(tile, first_pixel), [&](int pixel) {
    if (first_pixel + pixel < all_pixels)
      copy_async(
          bordered + index[pixel] * kBottleneckStride + my_bottleneck_channel(),
          bottleneck + static_cast<int64_t>(first_pixel + pixel) * kBottleneck + my_bottleneck_channel());
  });
}

// Waits for what copy_bottleneck_async() brought, and replaces each x by relu(norm2(x)): zero behind the last
// image.
__device__ inline void activate_bottleneck(const Tile& tile, const BorderedIndex& index, int first_pixel,
                                           int all_pixels, const float* scale, const float* shift,
                                           Bf16* bordered) {
  float my_scale[kOctet], my_shift[kOctet];
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    my_scale[i] = scale[my_bottleneck_channel() + i];
    my_shift[i] = shift[my_bottleneck_channel() + i];
  }
  wait_for_copies();
  for_my_pixels(pixels_read(tile, first_pixel), [&](int pixel) {
    auto* x = reinterpret_cast<uint4*>(bordered + index[pixel] * kBottleneckStride + my_bottleneck_channel());
    const uint4 in = *x;
    *x = first_pixel + pixel >= all_pixels ? uint4{0, 0, 0, 0} : activate(in, my_scale, my_shift);
  });
}

}  // namespace poem::cuda
