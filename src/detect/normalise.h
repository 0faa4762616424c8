// Rows brought to length 1; a row of zeros stays one.
#pragma once
#include <ATen/ATen.h>

namespace poem {

inline at::Tensor normalised(const at::Tensor& rows) {
  return rows / rows.norm(2, 1, /*keepdim=*/true).clamp_min(1e-12);
}

}  // namespace poem
