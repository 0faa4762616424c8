// Adds up the rows of partial sums that thread blocks left (cuda/totals.cuh), always in the same order.
//
//   partial_sums   rows × width   -> the three parts, added to
//
// A thread block adds 32 columns. Each of its 16 × 32 threads adds every 16th row of a column. Then the
// threads with y = 0 add the 16 sums of their column:
//
//               32 columns
//             +------------+
//    row  0   |   y = 0    |
//    row  1   |   y = 1    |       shared memory: 16 × 32         parts
//     ...     |    ...     |   ->  one sum per thread        ->   one sum per column
//    row 15   |   y = 15   |
//    row 16   |   y = 0    |
//     ...     |    ...     |
//             +------------+
#include "cuda/totals.cuh"

#include <algorithm>

#include "cuda/dense.h"
#include "cuda/launch.cuh"

namespace poem::cuda {
namespace {

constexpr int kColumns = 32, kRows = 16;

__global__ void add_rows_kernel(Totals totals, int rows) {
  __shared__ float shared[kRows][kColumns];
  const int column = blockIdx.x * kColumns + threadIdx.x, width = totals.width();
  float sum = 0;
  if (column < width) {
#pragma unroll 4
    for (int row = threadIdx.y; row < rows; row += kRows)
      sum += totals.partial_sums[static_cast<int64_t>(row) * width + column];
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= width) return;
  for (int y = 1; y < kRows; ++y) sum += shared[y][threadIdx.x];
  int i = column;
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
