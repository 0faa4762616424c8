// Training features that mean nothing to whoever is fitted on them: figures of such a fit would look like any
// others.
//
//   check_varies(training.features);   // throws Unfit
#pragma once
#include <ATen/core/Tensor.h>

#include "poem/scores.h"

namespace poem {

// Features are n×m floats.
void check_varies(const at::Tensor& features);   // unless all rows are the same, but for float32's rounding
void check_lengths(const at::Tensor& features);  // unless beside one row the others vanish in float32

}  // namespace poem
