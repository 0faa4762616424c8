// Starting kernels: properties of the GPU, and CUDA's errors as exceptions.
//
//   allow_shared_memory(kernel, bytes);
//   kernel<<<2 * multiprocessors(), threads, bytes, stream>>>(...);
//   check_launch("kernel");
#pragma once
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

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

// Without this a kernel gets 48 KiB of shared memory at most.
template <class Kernel>
void allow_shared_memory(Kernel kernel, int bytes) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "shared memory");
}

}  // namespace poem::cuda
