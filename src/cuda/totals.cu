#include <algorithm>

#include "cuda/launch.cuh"

namespace poem::cuda {
namespace {

constexpr int kColumns = 32, kRows = 16;

// Thread y adds every 16th row of a column, then one thread adds the 16 sums: always in the same order.
__global__ void add_rows_kernel(Totals totals, int rows) {
  __shared__ float shared[kRows][kColumns];
  const int column = blockIdx.x * kColumns + threadIdx.x, width = totals.width();
  float sum = 0;
  if (column < width) {
#pragma unroll 4
    for (int row = threadIdx.y; row < rows; row += kRows)
      sum += totals.rows[static_cast<int64_t>(row) * width + column];
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

void add_rows_up(const Totals& totals, int rows, cudaStream_t stream) {
  if (totals.rows == nullptr) return;
  add_rows_kernel<<<(totals.width() + kColumns - 1) / kColumns, dim3(kColumns, kRows), 0, stream>>>(totals,
                                                                                                    rows);
  check_launch("add_rows_up");
}

int64_t row_floats(int channels) {
  const int conv1 = (kBottleneck + 2) * channels, conv2 = (kTaps * kGrowth + 2) * kBottleneck;
  return 2 * int64_t{multiprocessors()} * std::max(conv1, conv2);
}

}  // namespace poem::cuda
