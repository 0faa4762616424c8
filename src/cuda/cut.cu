// Cuts crops out of images on the GPU: shifted, mirrored and, if asked, out of images that are resized first.
//
//   images   N × C × H × W, uint8
//   places   crops × 4, int32: image, top, left, whether mirrored
//   out      crops × C × size × size, uint8
//
// There is one thread per pixel of the output. What lies outside the image is zero:
//
//    image, H × W                          crop, size × size
//   +-----------------+
//   |      (top, left)|
//   |        +--------+---+               +--------+---+
//   |        |        |   |               |        | 0 |
//   |        |        |   |      ->       |        | 0 |
//   +--------+--------+   |               +--------+ 0 |
//            |            |               |  0   0   0 |
//            +------------+               +------------+
//
// Resizing is to size × size, by area averaging or by the filter that the crop drew. Only the pixels that a
// crop shows are computed. A filtered pixel reads all source pixels under its filter, on average fewer than
// 100, which costs less than a second pass over rows and columns would.
#include "cuda/cut.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "cuda/launch.cuh"

namespace poem::cuda {
namespace {

struct __align__(16) Place {
  int image, top, left, mirrored;
};

// One axis of an image that is resized. In units in which both kinds of pixels have whole lengths, output
// pixel i covers [i·coarse, (i+1)·coarse) and source pixel k covers [k·fine, (k+1)·fine). first() to last() −
// 1 are the source pixels that output pixel i overlaps, and weight() by how much.
struct Axis {
  int coarse, fine;
  Axis(int length, int size) : coarse(length / std::gcd(length, size)), fine(size / std::gcd(length, size)) {}
  __device__ int first(int i) const { return i * coarse / fine; }
  __device__ int last(int i) const { return ((i + 1) * coarse + fine - 1) / fine; }
  __device__ uint32_t weight(int i, int k) const {
    return min((i + 1) * coarse, (k + 1) * fine) - max(i * coarse, k * fine);
  }
};

// Area averaging in whole numbers, rounded half up, as on the CPU.
__device__ uint8_t average(const uint8_t* plane, int width, const Axis& rows, const Axis& columns, int y,
                           int x) {
  const uint64_t total = static_cast<uint64_t>(rows.coarse) * columns.coarse;
  uint64_t sum = total / 2;
  for (int r = rows.first(y); r < rows.last(y); ++r)
    for (int c = columns.first(x); c < columns.last(x); ++c)
      sum += static_cast<uint64_t>(plane[r * width + c]) * rows.weight(y, r) * columns.weight(x, c);
  return static_cast<uint8_t>(sum / total);
}

struct Taps {
  int first, count, weights;
};
struct Drawn {
  int rows, columns;
};

// By the taps of a filter, in whole numbers as on the CPU.
__device__ uint8_t resample(const uint8_t* plane, int width, const CutFilters& filters, const Taps& row,
                            const Taps& column) {
  int64_t sum = int64_t{1} << (2 * filters.bits - 1);
  for (int r = 0; r < row.count; ++r) {
    const uint8_t* line = plane + (row.first + r) * width + column.first;
    int part = 0;
    for (int c = 0; c < column.count; ++c) part += line[c] * filters.weights[column.weights + c];
    sum += int64_t{part} * filters.weights[row.weights + r];
  }
  const int64_t most = (int64_t{256} << 2 * filters.bits) - 1;
  return static_cast<uint8_t>(max(int64_t{0}, min(sum, most)) >> 2 * filters.bits);
}

__global__ void cut_kernel(CutImages images, CutFilters filters, const Place* places, int64_t pixels,
                           int size, Axis rows, Axis columns, uint8_t* out) {
  const auto* drawn = reinterpret_cast<const Drawn*>(filters.drawn);
  const auto* taps = reinterpret_cast<const Taps*>(filters.taps);
  const int height = images.resize ? size : images.height, width = images.resize ? size : images.width;
  const int64_t plane = static_cast<int64_t>(images.height) * images.width;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < pixels;
       i += int64_t{gridDim.x} * blockDim.x) {
    const int column = i % size, row = i / size % size, channel = i / (size * size) % images.channels;
    const int64_t crop = i / (int64_t{size} * size * images.channels);
    const Place place = places[crop];
    const Drawn filter = drawn == nullptr ? Drawn{-1, -1} : drawn[crop];
    const int y = row + place.top, x = (place.mirrored != 0 ? size - 1 - column : column) + place.left;
    uint8_t value = 0;
    if (y >= 0 && y < height && x >= 0 && x < width) {
      const uint8_t* from = images.pixels + (int64_t{place.image} * images.channels + channel) * plane;
      value = filter.rows >= 0
                  ? resample(from, images.width, filters, taps[filter.rows + y], taps[filter.columns + x])
              : images.resize ? average(from, images.width, rows, columns, y, x)
                              : from[y * images.width + x];
    }
    out[i] = value;
  }
}

}  // namespace

void cut(const CutImages& images, const CutFilters& filters, const int32_t* places, int64_t count, int size,
         uint8_t* out, cudaStream_t stream) {
  constexpr int kThreads = 256;
  const int64_t pixels = count * images.channels * size * size;
  const auto grid =
      static_cast<int>(std::min<int64_t>((pixels + kThreads - 1) / kThreads, 16 * multiprocessors()));
  cut_kernel<<<grid, kThreads, 0, stream>>>(images, filters, reinterpret_cast<const Place*>(places), pixels,
                                            size, Axis(images.height, size), Axis(images.width, size), out);
  check_launch("cut");
}

}  // namespace poem::cuda
