// Adds up the rows of partial sums that thread blocks left (cuda/totals.cuh), always in the same order.
//
//   partial_sums   rows × width   -> the three parts, added to
//
// A thread block adds 32 columns. Each of its 32 × 32 threads adds every 32nd row of a column. Then each warp
// adds the 32 sums of one column:
//
//               32 columns
//             +------------+
//    row  0   |   y = 0    |
//    row  1   |   y = 1    |       shared memory: 32 × 32         parts
//     ...     |    ...     |   ->  one sum per thread        ->   one sum per column
//    row 31   |   y = 31   |
//    row 32   |   y = 0    |
//     ...     |    ...     |
//             +------------+
#include "cuda/totals.cuh"

#include <algorithm>

#include "cuda/dense.h"
#include "cuda/launch.cuh"

namespace poem::cuda {
namespace {

constexpr int kColumns = kWarp, kRows = kWarp;
// Rows that a thread loads at once, since it mostly waits for them: all there are from an H200.
constexpr int kInFlight = 9;

__device__ float sum_of_rows(const float* column, int width, int rows) {
  float sum = 0;
  for (int first = threadIdx.y; first < rows; first += kInFlight * kRows) {
    float values[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int row = first + i * kRows;
      values[i] = row < rows ? column[static_cast<int64_t>(row) * width] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) sum += values[i];
  }
  return sum;
}

__global__ void __launch_bounds__(kColumns* kRows) add_rows_kernel(Totals totals, int rows) {
  __shared__ float shared[kRows][kColumns + 1];  // one more: a warp reads a column without bank conflicts
  const int width = totals.width(), loaded = blockIdx.x * kColumns + threadIdx.x;
  shared[threadIdx.y][threadIdx.x] =
      loaded < width ? sum_of_rows(totals.partial_sums + loaded, width, rows) : 0.0f;
  __syncthreads();
  float sum = shared[threadIdx.x][threadIdx.y];  // warp y adds column y
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
  int i = blockIdx.x * kColumns + threadIdx.y;
  if (threadIdx.x > 0 || i >= width) return;
  const Totals::Part* part = totals.parts;
  while (i >= part->count) i -= part++->count;
  part->to[i] += sum;
}

}  // namespace

void add_partial_sums(const Totals& totals, int thread_blocks, cudaStream_t stream) {
  if (totals.partial_sums == nullptr) return;
  add_rows_kernel<<<divide_up(totals.width(), kColumns), dim3(kColumns, kRows), 0, stream>>>(totals,
                                                                                             thread_blocks);
  check_launch("add_partial_sums");
}

// At most two thread blocks per multiprocessor add sums.
int64_t partial_sum_count(int channels) {
  const int conv1 = (kBottleneck + 2) * channels, conv2 = (kTaps * kGrowth + 2) * kBottleneck;
  return 2 * int64_t{multiprocessors()} * std::max(conv1, conv2);
}

}  // namespace poem::cuda
