#include "study/gaussian_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace poem {
namespace {

double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }

// ∫ Q from x to infinity.
double tail_integral(double x) { return normal_density(x) - x * upper_tail(x); }

// P(a ≤ N(0, 1) ≤ b), computed from the tail in which no digits are lost.
double interval(double a, double b) {
  return a + b > 0 ? upper_tail(a) - upper_tail(b) : upper_tail(-b) - upper_tail(-a);
}

double log_interval(double a, double b) {
  if (a + b < 0) return log_interval(-b, -a);
  const double log_a = log_upper_tail(a);
  return log_a + std::log1p(-std::exp(log_upper_tail(b) - log_a));
}

}  // namespace

double upper_tail(double x) { return std::erfc(x / std::sqrt(2)) / 2; }

double log_upper_tail(double x) {
  return at::special_log_ndtr(at::scalar_tensor(-x, at::kDouble)).item<double>();
}

double OutlierLaw::density(double t) const {
  if (spread_ == 0) return normal_density(t + r0_);
  return interval(t + r0_ * (1 - spread_), t + r0_ * (1 + spread_)) / (2 * spread_ * r0_);
}

double OutlierLaw::log_density(double t) const {  // up to a constant
  return log_interval(t + r0_ * (1 - spread_), t + r0_ * (1 + spread_));
}

double OutlierLaw::tail(double t) const {
  if (spread_ == 0) return upper_tail(t + r0_);
  return (tail_integral(t + r0_ * (1 - spread_)) - tail_integral(t + r0_ * (1 + spread_))) /
         (2 * spread_ * r0_);
}

double OutlierLaw::logit(double t) const {
  if (spread_ == 0) return -2 * r0_ * t;  // −2 xᵀμ / σ²
  return log_density(t) - log_density(-t);
}

double OutlierLaw::half_width(double eps) const {
  if (spread_ == 0) return eps / (2 * r0_);
  // −f′(t) = E[centre | ID, t] − E[centre | outlier, t] lies between 2 r₀(1 − spread) and 2 r₀(1 + spread).
  double low = eps / (2 * r0_ * (1 + spread_)), high = eps / (2 * r0_ * (1 - spread_));
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (-logit(middle) < eps ? low : high) = middle;
  }
  return (low + high) / 2;
}

TruncatedLaw::TruncatedLaw(const OutlierLaw& law, double half_width)
    : law_(law),
      half_width_(half_width),
      low_tail_(law.tail(-half_width)),
      mass_(low_tail_ - law.tail(half_width)) {}

// Newton's method on log P(T ≥ t), which is concave: started to the right of the solution, it approaches it
// and never passes it. The bound P(N(c, 1) ≥ t) ≤ exp(−(t − c)²/2) gives the start.
double TruncatedLaw::quantile(double u) const {
  const double target = low_tail_ - u * mass_;
  double t = std::min(half_width_, law_.right() + std::sqrt(-2 * std::log(target)));
  for (int i = 0; i < 100; ++i) {
    const double tail = law_.tail(t);
    const double step = std::log(tail / target) * tail / law_.density(t);
    t += step;
    if (!(step < -1e-12)) break;
  }
  return std::clamp(t, -half_width_, half_width_);
}

}  // namespace poem
