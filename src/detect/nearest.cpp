#include "detect/nearest.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <tuple>

namespace poem {

at::Tensor kth_nearest_square(const at::Tensor& query, const at::Tensor& known, int64_t k, int64_t block) {
  at::Tensor best = at::empty({query.size(0), 0}, query.options());  // of the blocks so far, ascending
  for (const at::Tensor& rows : known.split(block)) {
    // ‖a − b‖² = ‖a‖² + ‖b‖² − 2ab, without ‖a‖², which does not change the order.
    const at::Tensor all = at::cat({best, at::addmm(rows.square().sum(1), query, rows.t(), 1, -2)}, 1);
    best = std::get<0>(all.topk(std::min(k, all.size(1)), 1, /*largest=*/false, /*sorted=*/true));
  }
  return (best.select(1, k - 1) + query.square().sum(1)).clamp_min(0);
}

}  // namespace poem
