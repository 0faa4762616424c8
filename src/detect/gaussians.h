// Gaussians around the class means of features, with one covariance for all of them.
//
//   Gaussians g = fit_gaussians(features, labels);
//   at::Tensor nearest = g.distances(batch).amin(1);
#pragma once
#include <ATen/core/Tensor.h>

namespace poem {

// Everything float64.
struct Gaussians {
  at::Tensor centre;    // m: mean of all features
  at::Tensor whitener;  // m×r: within a class, (h − centre) · whitener has covariance 1
  at::Tensor means;     // c×r: the class means, whitened; c classes occurred

  // Squared Mahalanobis distances of n×m features to each mean, n×c; differentiable.
  at::Tensor distances(const at::Tensor& features) const;
};

// features n×m, labels int64 n from 0 up. The covariance is the mean of (h − μ)(h − μ)ᵀ over all rows, μ the
// mean of the row's class; directions in which it does not exceed float32's rounding are left out, as in a
// pseudo-inverse. Throws Unfit where none is left, and for one row beside which the others vanish.
Gaussians fit_gaussians(const at::Tensor& features, const at::Tensor& labels);

// Σ over rows of (h − origin)(h − origin)ᵀ in float64, m×m; origin is float64 m.
at::Tensor scatter_matrix(const at::Tensor& features, const at::Tensor& origin);

}  // namespace poem
