// The p-th percentile of all entries of a float32 tensor, between two entries by linear interpolation.
#pragma once
#include <ATen/core/Tensor.h>

namespace poem {

double percentile(const at::Tensor& values, double p);

// The same for each row of an n×m tensor: n.
at::Tensor row_percentiles(const at::Tensor& rows, double p);

}  // namespace poem
