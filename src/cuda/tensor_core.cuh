// Products on tensor cores, and which lane of a warp holds which part of the matrices.
//
//   float sum[4] = {};
//   uint32_t a[4];
//   load_matrices(a, pixels + role.row * stride + role.column);  // 16 pixels × 16 channels
//   multiply_add(sum, a, b0, b1);                                // · 16 channels × 8 outputs
//
// multiply_add() is one instruction of a whole warp: sum (16×8, float32) += a (16×16) · b (16×8), both
// bfloat16. A lane has the number 4·group + member, with group 0 … 7 and member 0 … 3. It holds
//
//   of sum, two neighbouring columns of two rows:          of a and b, pairs along the inner dimension (16):
//
//     column   0 1      2 3      4 5      6 7
//     row 0   lane 0   lane 1   lane 2   lane 3              a[0]  row group,     2·member and the next
//     row 1   lane 4   lane 5   lane 6   lane 7              a[1]  row group + 8, 2·member and the next
//      ...                                                   a[2]  row group,     2·member + 8 and the next
//     row 7   lane 28  lane 29  lane 30  lane 31             a[3]  row group + 8, 2·member + 8 and the next
//     row 8   lane 0   lane 1   lane 2   lane 3              b0    column group,  2·member and the next
//      ...                                                   b1    column group,  2·member + 8 and the next
//
//   sum[0], sum[1] in row group, sum[2], sum[3] in row group + 8
//
// The product sums over the inner dimension, so any order of its 16 channels will do that a and b share.
// Lanes that load straight from memory take 4 or 8 neighbouring channels, in one load of 8 or 16 bytes.
//
// A strip is the 16 rows of a product, mostly pixels. An octet is its 8 columns, neighbouring channels.
#pragma once
#include <cuda_bf16.h>

#include <cstdint>

#include "cuda/dense.h"

namespace poem::cuda {

constexpr int kWarp = 32;   // lanes
constexpr int kStrip = 16;  // rows of a and sum
constexpr int kOctet = 8;   // columns of b and sum
constexpr int kInner = 16;  // columns of a, rows of b
constexpr int kBottleneckOctets = kBottleneck / kOctet;
constexpr unsigned kAllLanes = 0xffffffff;

// Where a thread stands in its thread block, and which parts of matrices are its lane's.
struct Role {
  int warp, lane;
  int group, member;                      // in a product, see above
  int row, column;                        // in a 16×16 block that load_matrices() brings, see there
  int transposed_row, transposed_column;  // the same for a block that is the transpose of a product's a
  __device__ Role()
      : warp(threadIdx.x / kWarp),
        lane(threadIdx.x % kWarp),
        group(lane / 4),
        member(lane % 4),
        row(lane % 16),
        column(lane / 16 * 8),
        transposed_row(lane / 16 * 8 + lane % 8),
        transposed_column(lane / 8 % 2 * 8) {}
  // The first of the two neighbouring channels of an octet that this lane holds in a sum.
  __device__ int channel(int octet) const { return kOctet * octet + 2 * member; }
};

// Two neighbouring bfloat16 in one word, the first in its lower half.
__device__ inline float low(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ inline float high(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }
__device__ inline uint32_t pack(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
// A pair, or two (uint2) or four (uint4) of them, in one access.
template <class Words>
__device__ inline Words load_as(const Bf16* from) {
  return *reinterpret_cast<const Words*>(from);
}
template <class Words>
__device__ inline void store_as(Bf16* to, const Words& words) {
  *reinterpret_cast<Words*>(to) = words;
}
__device__ inline Bf16 to_bf16(float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }

__device__ inline void multiply_add(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Sums x over the eight lanes with the same member, which hold different rows of the same columns. All of
// them get the total.
__device__ inline float sum_over_groups(float x) {
  for (int step = 4; step < kWarp; step *= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Bring four 8×8 matrices, or two, from shared memory. Lane 8·m + r gives the address of row r of matrix m,
// 16 bytes. Of each matrix it gets two neighbours of row `group`, or of column `group` with
// load_transposed().
//
// So a 16×16 block, of which each lane gives its Role's row and column, becomes a of a product; transposed,
// it becomes b0 and b1 for its left octet and for its right one. A block of which each lane gives
// transposed_row and transposed_column becomes, transposed, a of a product.
__device__ inline void load_matrices(uint32_t (&matrices)[4], const Bf16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(shared_address(row)));
}
__device__ inline void load_transposed(uint32_t (&matrices)[4], const Bf16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(shared_address(row)));
}
__device__ inline void load_transposed(uint32_t (&matrices)[2], const Bf16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(matrices[0]), "=r"(matrices[1])
               : "r"(shared_address(row)));
}

}  // namespace poem::cuda
