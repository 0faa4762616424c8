// How far the k-th nearest of many rows is: a few large matrix products and selections, which a GPU does in
// milliseconds.
//
//   at::Tensor square = kth_nearest_square(query, known, 50);   // n: ‖a − b‖² for the 50th nearest b of each
//   a
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace poem {

// query is n×m, known N×m with N ≥ k, both float32 on one device. At most `block` rows of `known` are
// compared with at a time. A row with a NaN has NaN.
at::Tensor kth_nearest_square(const at::Tensor& query, const at::Tensor& known, int64_t k,
                              int64_t block = 65536);

}  // namespace poem
