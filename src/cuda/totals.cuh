// What a kernel sums over all pixels: statistics of the batch and gradients of parameters, up to three
// arrays.
//
//   const Totals totals{buffer.partial_sums, {{sums.x, channels}, {sums.x_squared, channels}, {}}};
//   kernel<<<grid, threads, bytes, stream>>>(totals);  // each thread block: totals.add<0>(channel, its sum)
//   add_partial_sums(totals, grid, stream);
//
// Without `partial_sums`, thread blocks add to the arrays as they finish. This is fast, but the order of
// the additions, and with it the rounding, differs from run to run. With it, each thread block writes its
// sums to a row of its own, and add_partial_sums() adds the rows in a fixed order:
//
//                       parts[0]            parts[1]     parts[2]
//                    +-------------------+------------+------------+
//    thread block 0  |                   |            |            |
//    thread block 1  |                   |            |            |
//         ...        |                   |            |            |
//                    +-------------------+------------+------------+
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/tensor_core.cuh"

namespace poem::cuda {

struct Totals {
  struct Part {
    float* to;
    int count;
  };
  float* partial_sums;
  Part parts[3];
  __host__ __device__ int width() const { return parts[0].count + parts[1].count + parts[2].count; }

  // Adds to element `i` of part kPart. A thread block may do so once per element.
  template <int kPart>
  __device__ void add(int i, float value) const {
    if (partial_sums == nullptr) {
      atomicAdd(parts[kPart].to + i, value);
      return;
    }
    row()[start<kPart>() + i] = value;
  }
  // The same for elements i and i + 1. i is even.
  template <int kPart>
  __device__ void add_pair(int i, float first, float second) const {
#if __CUDA_ARCH__ >= 900
    if (partial_sums == nullptr) {
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
  __device__ float* row() const { return partial_sums + static_cast<int64_t>(blockIdx.x) * width(); }
  template <int kPart>
  __device__ int start() const {
    int sum = 0;
#pragma unroll
    for (int i = 0; i < kPart; ++i) sum += parts[i].count;
    return sum;
  }
};
void add_partial_sums(const Totals& totals, int thread_blocks, cudaStream_t stream);

// Two sums per channel, such as Σx and Σx², that a lane keeps over its pixels: for Role::channel(octet) and
// for the channel after it.
template <int kOctets>
struct ChannelSums {
  float first[kOctets][2] = {}, second[kOctets][2] = {};
};

// Adds the sums of a thread block's lanes and warps, in a fixed order, to the parts kPart and kPart + 1.
// `scratch` is shared memory for 2 · warps · channels numbers that nobody else needs any more.
template <int kPart, int kOctets>
__device__ void add_channel_sums(const ChannelSums<kOctets>& sums, int channels, float* scratch,
                                 const Totals& totals) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  __syncthreads();
#pragma unroll
  for (int octet = 0; octet < kOctets; ++octet)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float first = sum_over_groups(sums.first[octet][i]),
                  second = sum_over_groups(sums.second[octet][i]);
      const int channel = kOctet * octet + 2 * lane + i;
      if (lane < 4 && channel < channels) {
        scratch[2 * warp * channels + channel] = first;
        scratch[(2 * warp + 1) * channels + channel] = second;
      }
    }
  __syncthreads();
  for (int channel = threadIdx.x; channel < channels; channel += blockDim.x) {
    float first = 0, second = 0;
    for (int w = 0; w < warps; ++w) {
      first += scratch[2 * w * channels + channel];
      second += scratch[(2 * w + 1) * channels + channel];
    }
    totals.add<kPart>(channel, first);
    totals.add<kPart + 1>(channel, second);
  }
}

}  // namespace poem::cuda
