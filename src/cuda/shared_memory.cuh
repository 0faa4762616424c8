// Arrays in a thread block's shared memory. Each kernel has one struct that lists them. Host and device
// build it alike: the host to know how many bytes to ask for, the kernel to find the arrays.
//
//   struct SharedMemory {
//     SharedLayout layout;
//     SharedArray<Bf16> weight;
//     SharedArray<float> scale;
//     __host__ __device__ explicit SharedMemory(int channels)
//         : weight(layout.add<Bf16>(kBottleneck * channels)), scale(layout.add<float>(channels)) {}
//   };
//   kernel<<<grid, threads, SharedMemory(channels).layout.bytes(), stream>>>(channels);
//   const SharedMemory memory(channels);  // in the kernel
//   memory.scale[0] = 1;
//
// A kernel that is short of registers gets the struct as an argument instead.
#pragma once
#include <cstdint>

#include "cuda/dense.h"
#include "cuda/tensor_core.cuh"

namespace poem::cuda {

template <class Element>
struct SharedArray {
  int offset = 0;  // in bytes, from the start of the thread block's shared memory

  __device__ Element* get() const {
    extern __shared__ __align__(16) char shared_memory[];
    return reinterpret_cast<Element*>(shared_memory + offset);
  }
  __device__ Element& operator[](int i) const { return get()[i]; }
  __device__ Element* operator->() const { return get(); }
};

// Places arrays one behind the other, each on a boundary of 16 bytes.
class SharedLayout {
 public:
  template <class Element>
  __host__ __device__ SharedArray<Element> add(int count) {
    const SharedArray<Element> array{bytes_};
    bytes_ += round_up(count * static_cast<int>(sizeof(Element)), 16);
    return array;
  }
  __host__ __device__ int bytes() const { return bytes_; }

 private:
  int bytes_ = 0;
};

__device__ inline void fill_with_zeros(void* to, int bytes) {
  auto* out = static_cast<uint4*>(to);
  for (int i = threadIdx.x; i < bytes / 16; i += blockDim.x) out[i] = {0, 0, 0, 0};
}

// Copies 16 bytes from device to shared memory without passing through registers. wait_for_copies() waits for
// all copies of the calling thread.
__device__ inline void copy_async(Bf16* shared, const Bf16* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :
               : "r"(shared_address(shared)), "l"(global)
               : "memory");
}
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" : : : "memory"); }

// The same for a matrix, by all threads together. Width and strides are in elements, multiples of 8.
__device__ inline void copy_rows_async(Bf16* shared, int shared_stride, const Bf16* global, int global_stride,
                                       int rows, int width) {
  const int lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp;
  for (int row = threadIdx.x / kWarp; row < rows; row += warps)
    for (int i = 8 * lane; i < width; i += 8 * kWarp)
      copy_async(shared + row * shared_stride + i, global + row * global_stride + i);
}

}  // namespace poem::cuda
