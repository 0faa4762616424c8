// Bayesian linear regression on features (Equation 1 of the paper), in float64 from sufficient statistics.
//
//   w ~ N(σ⁻² A⁻¹ Φy, scale · A⁻¹),   A = σ⁻² ΦΦᵀ + I / prior_variance
//
// The paper calls A (its Σ_p) the covariance; it is the precision, its inverse the covariance.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/random.h"

namespace poem {

// ΦΦᵀ, Φy and the number of rows: all that the posterior needs of any number of samples. Adds, subtracts,
// merges.
struct Statistics {
  explicit Statistics(int64_t features);

  // features: n×m float32 or float64, any device; targets: n float64. Each row counts `weight` times in ΦΦᵀ
  // and the count; `targets` are taken as they are, so a row of weight k brings the sum of its k targets.
  void add(const at::Tensor& features, const at::Tensor& targets, double weight = 1.0);
  Statistics& operator+=(const Statistics& other);
  Statistics& operator-=(const Statistics& other);

  at::Tensor gram;    // m×m float64 symmetric
  at::Tensor moment;  // m float64
  double count = 0;
};

struct PosteriorSettings {
  double prior_variance = 20;   // Σ = prior_variance · I
  double noise_variance = 0.5;  // σ²
  double scale = 1;             // multiplies the covariance; the authors' code has 20
};

class Posterior {
 public:
  // Statistics without rows give the prior. A matrix that cannot be factorised is a poem::Error that names
  // the feature.
  Posterior(const Statistics& statistics, const PosteriorSettings& settings);

  const at::Tensor& mean() const { return mean_; }  // m float64
  at::Tensor covariance() const;                    // m×m float64, scale included
  at::Tensor draw(Stream& stream) const;            // one sample, m float64

 private:
  at::Tensor mean_;
  at::Tensor factor_;  // lower Cholesky factor of A
  double scale_;
};

}  // namespace poem
