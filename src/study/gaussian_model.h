// The Gaussian model of the paper's section 6 and of its extension, along μ. The boundary between ID and
// outliers depends only on t = xᵀμ / (σ‖μ‖), the component of x along μ in units of σ.
//
//   const OutlierLaw law(r0, 0);                            // T ~ N(−r₀, 1)
//   const TruncatedLaw near(law, law.half_width(epsilon));  // given −G(x) ≤ ε
//   const double t = near.quantile(stream.uniform());
#pragma once

namespace poem {

double upper_tail(double x);      // Q(x) = P(N(0, 1) ≥ x); the paper calls it erf
double log_upper_tail(double x);  // log Q(x), also where Q(x) is too small for a double

// T ~ N((−1 + g) r₀, 1) with g uniform in ±spread. Spread 0 is the theorem's model, ¼ that of the extension.
// ID points have the mirrored law.
class OutlierLaw {
 public:
  OutlierLaw(double r0, double spread) : r0_(r0), spread_(spread) {}

  double density(double t) const;
  double tail(double t) const;          // P(T ≥ t)
  double logit(double t) const;         // f(x) = log p(t | outlier) / p(t | ID): odd, decreasing
  double half_width(double eps) const;  // |f(x)| ≤ eps is |t| ≤ half_width(eps)
  double right() const { return -r0_ * (1 - spread_); }  // mean of the Gaussian nearest to the boundary

 private:
  double log_density(double t) const;
  double r0_, spread_;
};

// The law given |T| ≤ half_width. It is sampled by inversion, because rejection would not end: the condition
// has probability 10⁻¹⁵ at r₀ = 8.
class TruncatedLaw {
 public:
  TruncatedLaw(const OutlierLaw& law, double half_width);
  double quantile(double u) const;  // 0 ≤ u < 1

 private:
  OutlierLaw law_;
  double half_width_, low_tail_, mass_;  // P(T ≥ −half_width), P(|T| ≤ half_width)
};

}  // namespace poem
