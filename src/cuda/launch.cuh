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
// the shared memory it takes.
template <class Bytes>
Tile choose_tile(const Block& block, Bytes bytes) {
  static const int room = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor) / 2 - 1024;
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

}  // namespace poem::cuda
