// Bayesian linear regression on features (Equation 1 of the paper), in float64 from sufficient statistics.
//
//   w ~ N(σ⁻² A⁻¹ Φy, scale · A⁻¹),   A = σ⁻² ΦΦᵀ + I / prior_variance
//
// The paper calls A (its Σ_p) the covariance, but it is the precision: its inverse is the covariance.
//
//   Statistics statistics(342);
//   statistics.add(id_features, id_targets);
//   statistics.add(outlier_features, outlier_targets);
//   Posterior posterior(statistics, settings);
//   at::Tensor w = posterior.draw(stream);
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "poem/random.h"

namespace poem {

// ΦΦᵀ, Φy and the number of rows: all that the posterior needs of any number of samples. Statistics can be
// added and subtracted.
struct Statistics {
  explicit Statistics(int64_t features);
  // A copied tensor shares its numbers with the original; copied statistics do not.
  Statistics(const Statistics& other);
  Statistics& operator=(const Statistics& other);
  Statistics(Statistics&&) = default;
  Statistics& operator=(Statistics&&) = default;

  // features: n×m float32 or float64, any device; targets: n float64. Each row counts `weight` times in ΦΦᵀ
  // and in the count. `targets` are not multiplied: for a row of weight k, pass the sum of its k targets.
  // NaN or infinity is a poem::Error that names row and feature; do not use the statistics after it.
  void add(const at::Tensor& features, const at::Tensor& targets, double weight = 1.0);
  Statistics& operator+=(const Statistics& other);
  Statistics& operator-=(const Statistics& other);

  at::Tensor gram;    // m×m float64 on the CPU: the lower triangle of ΦΦᵀ, zeros above it
  at::Tensor moment;  // m float64 on the CPU
  double count = 0;
};

// The noise N(0, σ²) on the target logits: one draw per target, or one number for the whole run, which is
// drawn from the seed and added to every target (the authors' code).
enum class TargetNoise { kIid, kSingle };

struct PosteriorSettings {
  double prior_variance = 20;   // Σ = prior_variance · I
  double noise_variance = 0.5;  // σ²
  double scale = 1;             // multiplies the covariance; the authors' code has 20
  double target = 3;            // logit regressed on: + for outliers, − for ID; 3 is a probability of 0.95
  TargetNoise target_noise = TargetNoise::kIid;
};

class Posterior {
 public:
  // Statistics without rows give the prior. A matrix that cannot be factorised is a poem::Error that names
  // the feature: it is a combination of earlier features, or more was subtracted than had been added.
  Posterior(const Statistics& statistics, const PosteriorSettings& settings);

  const at::Tensor& mean() const { return mean_; }           // m float64
  at::Tensor covariance() const;                             // m×m float64, scale included
  at::Tensor draw(Stream& stream) const;                     // one sample, m float64
  at::Tensor draws(Stream& stream, int64_t how_many) const;  // m×how_many: the same as repeated draw()

 private:
  at::Tensor mean_;
  at::Tensor factor_;  // lower Cholesky factor of A
  double scale_;
};

}  // namespace poem
