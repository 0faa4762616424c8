// Logistic regression on a few columns.
#pragma once
#include <ATen/core/Tensor.h>

namespace poem {

// Coefficients c + 1 (float64, the last one the intercept) that tell `positive` (n×c) from `negative` (k×c)
// rows. Columns are standardised for the fit, and the ridge ½‖w‖² is on the standardised coefficients.
at::Tensor fit_logistic(const at::Tensor& positive, const at::Tensor& negative);

// The logit of each row: n.
at::Tensor logistic_logits(const at::Tensor& coefficients, const at::Tensor& rows);

}  // namespace poem
