// Sums over all pixels, to which thread blocks add what they summed themselves: statistics of the batch, and
// gradients of parameters.
//
//   kernel<<<grid, threads, bytes, stream>>>(totals(sums));  // Σx and Σx² per channel
//   totals.add(channel, first, second);                      // in a thread block, with its own sums
//
// Thread blocks finish in a different order in every run, and floating-point sums depend on the order,
// because every addition rounds. Exact sums do not: each thread block rounds its own sum to a multiple of a
// small step, and multiples of one step add up without rounding, in float64 up to 2⁵³ of them:
//
//                        step   exact up to   why the step is small enough
//   statistics           2⁻²⁰   8.6·10⁹       it changes a variance by 10⁻⁸; BatchNorm adds 10⁻⁵ to that
//   BatchNorms, backward 2⁻⁴⁰   8192          float32 weights do not notice gradients of 10⁻¹²
//   weights, backward    2⁻³⁰   1024          a gradient off by 10⁻⁸ is lost in a weight of 0.1
//
// A larger total is as accurate, but the order may change its last bits. It is used in float32, which hides
// nearly all of these changes where it was float64.
//
// The gradients of the convolutions' weights are nearly all that is added, and the second-level cache adds
// float32 faster than float64. So each is two sums in float32, exact up to 2²⁴ steps: of its high parts in
// steps of 2⁻¹⁴, and of the rests in steps of 2⁻³⁰. A rest is at most 2⁻¹⁵, so 512 thread blocks stay below
// 2²⁴ steps.
#pragma once
#include <cuda_runtime_api.h>

#include "cuda/dense.h"
#include "cuda/tensor_core.cuh"

namespace poem::cuda {

constexpr int kStatisticBits = 20, kGradientBits = 40, kHighBits = 14, kLowBits = 30;

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

// Add neighbouring numbers in one access, on a boundary of its size.
__device__ inline void add_floats(float* to, float a, float b) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" : : "l"(to), "f"(a), "f"(b) : "memory");
#else
  atomicAdd(to, a);
  atomicAdd(to + 1, b);
#endif
}
__device__ inline void add_floats(float* to, float a, float b, float c, float d) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(to), "f"(a), "f"(b), "f"(c), "f"(d)
               : "memory");
#else
  add_floats(to, a, b);
  add_floats(to + 2, c, d);
#endif
}

// The nearest multiple of 2⁻ᵇ, with b = kBits, for |x| < 2²²⁻ᵇ: beside 1.5·2²³⁻ᵇ float32 has no finer digits.
template <int kBits>
__device__ inline float to_step(float x) {
  constexpr float kCoarse = 1.5f * (1 << 23) / (1LL << kBits);
  return __fsub_rn(__fadd_rn(x, kCoarse), kCoarse);
}

// Adds to elements i and i + 1 of a convolution's weights. i is even.
__device__ inline void add_pair(const WeightGradient& gradient, int i, float first, float second) {
  if (!gradient.exact) return add_floats(gradient.sums + i, first, second);
  const float high_first = to_step<kHighBits>(first), high_second = to_step<kHighBits>(second);
  add_floats(gradient.sums + 2 * i, high_first, high_second, to_step<kLowBits>(first - high_first),
             to_step<kLowBits>(second - high_second));
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
