// Sums over all pixels, to which thread blocks add what they summed themselves: statistics of the batch, and
// gradients of parameters.
//
//   kernel<<<grid, threads, bytes, stream>>>(totals(sums));  // Σx and Σx² per channel
//   totals.add(channel, first, second);                      // in a thread block, with its own sums
//
// Thread blocks finish in a different order in every run, and floating-point sums depend on the order,
// because every addition rounds. Exact sums do not: each thread block rounds its own sum to a multiple of a
// small step, and multiples of one step are added in float64 without rounding:
//
//               step   exact up to 2⁵³ steps   why the step is small enough
//   statistics  2⁻²⁰   8.6·10⁹                 it changes a variance by 10⁻⁸, and BatchNorm adds 10⁻⁵ to that
//   gradients   2⁻⁴⁰   8192                    float32 weights do not notice gradients of 10⁻¹²
//
// A larger total is as accurate, but the order may change its last bit in float64. It is used in float32,
// which hides nearly all of these changes.
#pragma once
#include <cuda_runtime_api.h>

#include "cuda/dense.h"
#include "cuda/tensor_core.cuh"

namespace poem::cuda {

constexpr int kStatisticBits = 20, kGradientBits = 40;

template <int kBits>
__device__ void add_exactly(double* to, float sum) {
  constexpr float kSteps = 1LL << kBits;  // per 1: a power of two, so that only rintf() rounds
  atomicAdd(to, static_cast<double>(rintf(sum * kSteps) / kSteps));
}

// Two exact sums per channel.
template <int kBits>
struct Totals {
  double *first, *second;
  __device__ void add(int channel, float to_first, float to_second) const {
    add_exactly<kBits>(first + channel, to_first);
    add_exactly<kBits>(second + channel, to_second);
  }
};
using StatisticTotals = Totals<kStatisticBits>;
using GradientTotals = Totals<kGradientBits>;
inline StatisticTotals totals(const Sums& sums) { return {sums.x, sums.x_squared}; }
inline GradientTotals totals(const NormGradient& norm) { return {norm.bias, norm.weight}; }

// Adds to elements i and i + 1 of a convolution's weights. i is even.
__device__ inline void add_pair(const WeightGradient& gradient, int i, float first, float second) {
  if (gradient.sums == nullptr) {
    add_exactly<kGradientBits>(gradient.even + i / 2, first);
    add_exactly<kGradientBits>(gradient.odd + i / 2, second);
    return;
  }
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v2.f32 [%0], {%1, %2};"
               :
               : "l"(gradient.sums + i), "f"(first), "f"(second)
               : "memory");
#else
  atomicAdd(gradient.sums + i, first);
  atomicAdd(gradient.sums + i + 1, second);
#endif
}

// Two sums per channel, such as Σx and Σx², that a lane keeps over its pixels: for Role::channel(octet) and
// for the channel after it.
template <int kOctets>
struct ChannelSums {
  float first[kOctets][2] = {}, second[kOctets][2] = {};
};

// Adds the sums of a thread block's lanes and warps, in a fixed order, to the totals. `scratch` is shared
// memory for 2 · warps · channels numbers that nobody else needs any more.
template <int kBits, int kOctets>
__device__ void add_channel_sums(const ChannelSums<kOctets>& sums, int channels, float* scratch,
                                 const Totals<kBits>& totals) {
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
    totals.add(channel, first, second);
  }
}

}  // namespace poem::cuda
