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
// Resizing is to size × size by area averaging. Only the pixels that a crop shows are computed.
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

__global__ void cut_kernel(CutImages images, const Place* places, int64_t pixels, int size, Axis rows,
                           Axis columns, uint8_t* out) {
  const int height = images.resize ? size : images.height, width = images.resize ? size : images.width;
  const int64_t plane = static_cast<int64_t>(images.height) * images.width;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < pixels;
       i += int64_t{gridDim.x} * blockDim.x) {
    const int column = i % size, row = i / size % size, channel = i / (size * size) % images.channels;
    const Place place = places[i / (int64_t{size} * size * images.channels)];
    const int y = row + place.top, x = (place.mirrored != 0 ? size - 1 - column : column) + place.left;
    uint8_t value = 0;
    if (y >= 0 && y < height && x >= 0 && x < width) {
      const uint8_t* from = images.pixels + (int64_t{place.image} * images.channels + channel) * plane;
      value = images.resize ? average(from, images.width, rows, columns, y, x) : from[y * images.width + x];
    }
    out[i] = value;
  }
}

}  // namespace

void cut(const CutImages& images, const int32_t* places, int64_t count, int size, uint8_t* out,
         cudaStream_t stream) {
  constexpr int kThreads = 256;
  const int64_t pixels = count * images.channels * size * size;
  const auto grid =
      static_cast<int>(std::min<int64_t>((pixels + kThreads - 1) / kThreads, 16 * multiprocessors()));
  cut_kernel<<<grid, kThreads, 0, stream>>>(images, reinterpret_cast<const Place*>(places), pixels, size,
                                            Axis(images.height, size), Axis(images.width, size), out);
  check_launch("cut");
}

}  // namespace poem::cuda
