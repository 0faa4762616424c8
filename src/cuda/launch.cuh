// How kernels are started: device properties, tile sizes, and errors as exceptions.
#pragma once
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "cuda/tile.cuh"

namespace poem::cuda {

inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}
inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

inline int attribute(cudaDeviceAttr name) {
  int device = 0, value = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&value, name, device), "cudaDeviceGetAttribute");
  return value;
}
inline int multiprocessors() {
  static const int count = attribute(cudaDevAttrMultiProcessorCount);
  return count;
}

template <class Kernel>
void allow_shared(Kernel kernel, int bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "shared memory");
}

// The largest tile that still gives every multiprocessor two of them to work on and to hold. `bytes(tile)` is
// the shared memory it takes; `keep` bytes of a multiprocessor's go to its first-level cache beside what that
// has.
template <class Bytes>
Tile choose_tile(const Block& block, Bytes bytes, int keep = 0) {
  static const int all = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  constexpr int kMuch = 160 * 1024;  // less is needed for the tile itself
  const int room = (all < kMuch ? all : all - keep) / 2 - 1024;
  int pixels = 64;
  while (pixels < 512 && pixels < block.pixels() / (2 * multiprocessors())) pixels *= 2;
  Tile best{block.height, block.width, 1, 1};
  for (int rows = 1; rows <= block.height; ++rows) {
    if (block.height % rows != 0) continue;
    const int most = rows < block.height ? 1 : block.images;
    for (int images = 1; images <= most; ++images) {
      const Tile tile{block.height, block.width, rows, images};
      if (tile.inner() > pixels || bytes(tile) > room) break;
      if (tile.inner() > best.inner()) best = tile;
    }
  }
  return best;
}

// What a kernel sums over all pixels, up to three arrays, and in which a thread block keeps its share until
// add_rows_up() adds the shares in order. With no rows the thread blocks add to the arrays themselves.
struct Totals {
  struct Part {
    float* to;
    int count;
  };
  float* rows;
  Part parts[3];
  __host__ __device__ int width() const { return parts[0].count + parts[1].count + parts[2].count; }

  // Adds to element `i` of part kPart; once a thread block.
  template <int kPart>
  __device__ void add(int i, float value) const {
    if (rows == nullptr) {
      atomicAdd(parts[kPart].to + i, value);
      return;
    }
    row()[start<kPart>() + i] = value;
  }
  // The same for i and i + 1; i is even.
  template <int kPart>
  __device__ void add_pair(int i, float first, float second) const {
#if __CUDA_ARCH__ >= 900
    if (rows == nullptr) {
      asm volatile("red.global.add.v2.f32 [%0], {%1, %2};"
                   :
                   : "l"(parts[kPart].to + i), "f"(first), "f"(second)
                   : "memory");
      return;
    }
#endif
    add<kPart>(i, first);
    add<kPart>(i + 1, second);
  }

 private:
  __device__ float* row() const { return rows + static_cast<int64_t>(blockIdx.x) * width(); }
  template <int kPart>
  __device__ int start() const {
    int sum = 0;
#pragma unroll
    for (int i = 0; i < kPart; ++i) sum += parts[i].count;
    return sum;
  }
};
void add_rows_up(const Totals& totals, int rows, cudaStream_t stream);

// Adds two numbers a channel over the warps of a thread block, in their order, and to the totals' parts kPart
// and kPart + 1. A lane 4g + t has the channels 8n + 2t and 8n + 2t + 1 of its rows. `shared` holds
// 2 · warps · channels numbers.
template <int kPart, int kColumns>
__device__ void add_sums(const float (&first)[kColumns][2], const float (&second)[kColumns][2], int channels,
                         float* shared, const Totals& totals) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  __syncthreads();
#pragma unroll
  for (int n = 0; n < kColumns; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float a = add_rows(first[n][i]), b = add_rows(second[n][i]);
      const int channel = 8 * n + 2 * lane + i;
      if (lane < 4 && channel < channels) {
        shared[2 * warp * channels + channel] = a;
        shared[(2 * warp + 1) * channels + channel] = b;
      }
    }
  __syncthreads();
  for (int i = threadIdx.x; i < channels; i += blockDim.x) {
    float a = 0, b = 0;
    for (int w = 0; w < warps; ++w) {
      a += shared[2 * w * channels + i];
      b += shared[(2 * w + 1) * channels + i];
    }
    totals.add<kPart>(i, a);
    totals.add<kPart + 1>(i, b);
  }
}

}  // namespace poem::cuda
