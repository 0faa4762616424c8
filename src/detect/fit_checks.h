// Finds training features on which a fit would be meaningless, although its figures would look like any
// others.
//
//   check_varies(training.features);   // throws Unfit
#pragma once
#include <ATen/core/Tensor.h>

#include "poem/scores.h"

namespace poem {

// Features are n×m floats. Both throw Unfit.
void check_varies(const at::Tensor& features);   // if all rows are the same up to float32's rounding
void check_lengths(const at::Tensor& features);  // if beside one row the others are rounding errors

}  // namespace poem
