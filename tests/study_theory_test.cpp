#include "study/theory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "poem/random.h"
#include "study/gaussian_model.h"

namespace poem {
namespace {

constexpr double kUnconstrained = std::numeric_limits<double>::infinity();

// ∫ f over [a, b] by Simpson's rule.
double integral(const std::function<double(double)>& f, double a, double b, int steps = 4000) {
  const double h = (b - a) / steps;
  double sum = f(a) + f(b);
  for (int i = 1; i < steps; ++i) sum += f(a + i * h) * (i % 2 == 1 ? 4 : 2);
  return sum * h / 3;
}

// p(t | outlier) by its definition, up to the factor exp(−shift): an average over g of Gaussians.
double naive_density(double t, double r0, double spread, double shift = 0) {
  const auto gaussian = [&](double g) {
    const double z = t - (-1 + g) * r0;
    return std::exp(-z * z / 2 + shift) / std::sqrt(2 * M_PI);
  };
  return spread == 0 ? gaussian(0) : integral(gaussian, -spread, spread) / (2 * spread);
}

TEST(UpperTail, AgreesWithQuadratureNearAndFar) {
  for (double x : {-6.0, -1.0, 0.0, 0.5, 3.0, 8.0, 20.0, 30.0}) {
    // Q(x) exp(x²/2) = ∫ exp(−xs − s²/2) ds / √2π stays of order one.
    const double end = x > 0 ? 45 / (x + 2) : 24;  // what comes after it is nothing
    const double scaled =
        integral([&](double s) { return std::exp(-x * s - s * s / 2); }, 0, end) / std::sqrt(2 * M_PI);
    EXPECT_NEAR(upper_tail(x) / (scaled * std::exp(-x * x / 2)), 1, 1e-9) << x;
    EXPECT_NEAR(log_upper_tail(x), std::log(scaled) - x * x / 2, 1e-9) << x;
  }
  EXPECT_NEAR(log_upper_tail(100) / -5005.5242086942050886, 1, 1e-14);  // where Q is 0 in double precision
}

TEST(OutlierLaw, TailAndDensityAreThoseOfTheMixture) {
  for (double spread : {0.0, 0.25}) {
    const OutlierLaw law(3, spread);
    for (double t : {-7.0, -3.0, -1.0, 0.0, 0.5, 2.0}) {
      EXPECT_NEAR(law.density(t) / naive_density(t, 3, spread), 1, 1e-9) << t;
      const double tail = integral([&](double s) { return law.density(s); }, t, t + 16);
      EXPECT_NEAR(law.tail(t) / tail, 1, 1e-9) << t;
    }
  }
}

TEST(OutlierLaw, LogitIsOddDecreasingAndReachesEpsilonAtTheHalfWidth) {
  for (double spread : {0.0, 0.25}) {
    for (double r0 : {0.5, 2.0, 8.0, 30.0}) {
      const OutlierLaw law(r0, spread);
      EXPECT_NEAR(law.logit(0), 0, 1e-12);
      double last = law.logit(-3);
      for (double t = -2.9; t < 3; t += 0.1) {
        EXPECT_LT(law.logit(t), last);
        EXPECT_NEAR(law.logit(-t), -law.logit(t), 1e-9 * std::abs(law.logit(t)) + 1e-9);
        last = law.logit(t);
      }
      for (double eps : {1e-6, 0.01, 1.0, 300.0, 1e4})
        EXPECT_NEAR(law.logit(-law.half_width(eps)) / eps, 1, 1e-6) << r0 << " " << eps;
    }
  }
}

TEST(OutlierLaw, LogitIsTheLogOddsOfTheDensities) {
  for (double t : {-2.0, -0.3, 0.1, 1.5}) {
    EXPECT_NEAR(OutlierLaw(2, 0.25).logit(t),
                std::log(naive_density(t, 2, 0.25) / naive_density(-t, 2, 0.25)), 1e-9);
    EXPECT_NEAR(OutlierLaw(2, 0).logit(t), std::log(naive_density(t, 2, 0) / naive_density(-t, 2, 0)), 1e-12);
  }
}

// A second way to the same number: the inverse normal distribution function of ATen.
TEST(TruncatedLaw, GaussianQuantilesAgreeWithNdtri) {
  for (double r0 : {2.0, 4.0, 8.0, 30.0}) {
    for (double eps : {0.01, 1.0, 30.0}) {
      const OutlierLaw law(r0, 0);
      const double h = law.half_width(eps);
      const TruncatedLaw truncated(law, h);
      for (double u : {0.0, 1e-9, 0.1, 0.5, 0.9, 1 - 0x1p-53}) {
        const double high = std::erfc((r0 - h) / M_SQRT2) / 2, low = std::erfc((r0 + h) / M_SQRT2) / 2;
        const at::Tensor p = at::scalar_tensor(high - u * (high - low), at::kDouble);
        const double expected = -r0 - at::special_ndtri(p).item<double>();
        EXPECT_NEAR(truncated.quantile(u), expected, 1e-9 * r0) << r0 << " " << eps << " " << u;
        EXPECT_LE(std::abs(truncated.quantile(u)), h);
      }
    }
  }
}

// Mean and variance of quantile(U) against those of the density, by quadrature; r₀ = 8 with a small ε is
// where rejection would wait for an event of probability 10⁻¹⁵.
TEST(TruncatedLaw, MomentsAgreeWithTheDensity) {
  for (double spread : {0.0, 0.25}) {
    for (double r0 : {2.0, 8.0, 30.0}) {
      for (double eps : {0.001, 1.0, 20.0}) {
        const OutlierLaw law(r0, spread);
        const double h = law.half_width(eps);
        const TruncatedLaw truncated(law, h);
        const double shift = r0 * r0 / 2 * (1 - spread) * (1 - spread);
        const auto moment = [&](int k) {
          return integral([&](double t) { return std::pow(t / h, k) * naive_density(t, r0, spread, shift); },
                          -h, h, 200);
        };
        const double mass = moment(0), mean = moment(1) / mass, square = moment(2) / mass;
        const auto of_quantile = [&](int k) {
          double sum = 0;  // midpoints, for the quantile function is steep at its ends
          constexpr int kPoints = 20000;
          for (int i = 0; i < kPoints; ++i) sum += std::pow(truncated.quantile((i + 0.5) / kPoints) / h, k);
          return sum / kPoints;
        };
        EXPECT_NEAR(of_quantile(1), mean, 2e-4) << spread << " " << r0 << " " << eps;
        EXPECT_NEAR(of_quantile(2), square, 2e-4) << spread << " " << r0 << " " << eps;
      }
    }
  }
}

TEST(TruncatedLaw, WithoutAnEffectiveLimitIsTheLawItself) {
  const OutlierLaw law(2, 0.25);
  const TruncatedLaw wide(law, law.half_width(300));
  for (double u : {1e-6, 0.2, 0.5, 0.99, 1 - 1e-12}) EXPECT_NEAR(law.tail(wide.quantile(u)), 1 - u, 1e-12);
}

// θ̂ from n×d numbers, as the paper writes it, and from it what a Trial holds.
Trial brute_force(const TheoryCase& c, const TruncatedLaw& near, uint64_t repeat) {
  Stream stream(7, "brute-force", repeat);
  const double spread = c.extended ? 0.25 : 0;
  const bool constrained = std::isfinite(c.epsilon);
  std::vector<double> id(c.dimension), outlier(c.dimension);
  for (int64_t i = 0; i < c.samples; ++i) {
    for (int64_t j = 0; j < c.dimension; ++j) {
      const double s = j == 0 ? 1 + stream.uniform(-spread, spread) : 0;
      id[j] += (s * c.signal + stream.normal()) / c.samples;
      const double g = j == 0 ? -1 + stream.uniform(-spread, spread) : 0;
      const double any = g * c.signal + stream.normal();
      outlier[j] += (j == 0 && constrained ? near.quantile(stream.uniform()) : any) / c.samples;
    }
  }
  Trial t{};
  double dot = 0;
  for (int64_t j = 0; j < c.dimension; ++j) {
    const double mu = j == 0 ? c.signal : 0, theta = (id[j] - outlier[j]) / 2;
    t.theta1_norm += std::pow(id[j] - mu, 2);
    t.theta2_norm += std::pow(-outlier[j] - mu, 2);
    t.norm += theta * theta;
    dot += theta * mu;
  }
  t.theta1_along = id[0] - c.signal;
  t.theta2_along = -outlier[0] - c.signal;
  t.along = dot / c.signal;
  t.ratio = dot / std::sqrt(t.norm);
  return t;
}

std::array<double, 7> numbers(const Trial& t) {
  return {t.theta1_norm, t.theta2_norm, t.norm, t.theta1_along, t.theta2_along, t.along, t.ratio};
}

// Means and variances of everything a trial holds, within 4.5 standard errors; the variance's from the fourth
// moment of either sample.
TEST(Theory, TrialsHaveTheLawOfTheBruteForceDraw) {
  constexpr int64_t kRepeats = 4000;
  for (const TheoryCase& c : {TheoryCase{false, 6, 5, 2, 1}, TheoryCase{false, 2, 3, 4, kUnconstrained},
                              TheoryCase{true, 6, 5, 2, 1}, TheoryCase{true, 3, 4, 2, kUnconstrained},
                              TheoryCase{false, 1, 4, 2, 0.1}}) {
    const OutlierLaw law(c.signal, c.extended ? 0.25 : 0);
    const TruncatedLaw near(law, std::isfinite(c.epsilon) ? law.half_width(c.epsilon) : 1);
    std::array<std::vector<double>, 7> fast, slow;
    const std::vector<Trial> trials = draw_trials(c, kRepeats, 3);
    for (int64_t i = 0; i < kRepeats; ++i) {
      const std::array<double, 7> x = numbers(trials[i]), y = numbers(brute_force(c, near, i));
      for (size_t k = 0; k < 7; ++k) {
        fast[k].push_back(x[k]);
        slow[k].push_back(y[k]);
      }
    }
    for (size_t k = 0; k < 7; ++k) {
      const auto centred = [](const std::vector<double>& x) {
        const at::Tensor t = at::tensor(x, at::kDouble);
        return t - t.mean();
      };
      const auto mean = [](const at::Tensor& t) { return t.mean().item<double>(); };
      const at::Tensor a = centred(fast[k]), b = centred(slow[k]);
      const double difference =
          mean(at::tensor(fast[k], at::kDouble)) - mean(at::tensor(slow[k], at::kDouble));
      EXPECT_LT(std::abs(difference), 4.5 * std::sqrt((mean(a * a) + mean(b * b)) / kRepeats) + 1e-12) << k;
      const at::Tensor a2 = a * a, b2 = b * b;
      const double error = std::sqrt(
          (mean(a2 * a2) - std::pow(mean(a2), 2) + mean(b2 * b2) - std::pow(mean(b2), 2)) / kRepeats);
      EXPECT_LT(std::abs(mean(a2) - mean(b2)), 4.5 * error + 1e-12) << k;
    }
  }
}

// The closed forms against counting how often θ̂ errs on fresh points.
TEST(Theory, ErrorRatesAgreeWithCounting) {
  constexpr int64_t kPoints = 200000;
  const double theta[3] = {1.3, 0.4, -0.9}, norm = std::sqrt(1.3 * 1.3 + 0.4 * 0.4 + 0.9 * 0.9);
  for (bool extended : {false, true}) {
    const TheoryCase c{extended, 3, 1, 1.7, 1};
    const double ratio = theta[0] * c.signal / norm;
    int64_t false_positives = 0, false_negatives = 0;
    Stream stream(5, "points");
    for (int64_t i = 0; i < kPoints; ++i) {
      double ood = 0, id = 0;
      for (int j = 0; j < 3; ++j) {
        const double v = extended ? 0.25 * c.signal * theta[j] / norm : 0;  // the worst
        ood += theta[j] * ((j == 0 ? -c.signal : 0) + v + stream.normal());
        id += theta[j] * ((j == 0 ? (extended ? 0.75 : 1) * c.signal : 0) + stream.normal());
      }
      false_positives += ood >= 0;
      false_negatives += id < 0;
    }
    const auto expect_rate = [&](int64_t count, double rate) {
      EXPECT_NEAR(static_cast<double>(count) / kPoints, rate, 4.5 * std::sqrt(rate * (1 - rate) / kPoints));
    };
    expect_rate(false_positives, false_positive_rate(c, ratio));
    expect_rate(false_negatives, false_negative_rate(c, ratio));
  }
}

TEST(Theory, BoundIsThePapersFormulaWithSigmaInIt) {
  const double sigma = 0.5, mu = 3 * sigma, epsilon = 0.4, d = 7, n = 11;
  const double bound = (mu * mu - std::sqrt(sigma) * std::pow(mu, 1.5) - sigma * sigma * epsilon / 2) /
                       (2 * std::sqrt(sigma * sigma / n * (d + 1 / sigma) + mu * mu));
  // In units of σ the numerator loses σ², the denominator σ: the paper's ratio has one σ more below.
  EXPECT_NEAR(theorem_bound({false, 7, 11, 3, epsilon}, sigma), bound / sigma, 1e-12);
}

// P(χ²_d ≥ d + 1) is known; the proof puts it at e^(−d/8).
TEST(Theory, SharesOfViolationsAgreeWithTheChiSquareLaw) {
  TheorySettings settings;
  settings.dimensions = {2, 50};
  settings.samples = {20};
  settings.signals = {2};
  settings.epsilons = {1};
  settings.repeats = 2000;
  for (const TheoryRow& row : measure_theory(settings)) {
    if (row.extended) continue;
    const auto half = [](double x) { return at::scalar_tensor(x / 2, at::kDouble); };
    const auto d = static_cast<double>(row.dimension);
    const double p = at::special_gammaincc(half(d), half(d + 1)).item<double>();
    const double error = 4.5 * std::sqrt(p * (1 - p) / 2000);
    EXPECT_NEAR(row.violated[kTheta1Norm], p, error);
    if (std::isfinite(row.epsilon)) {
      EXPECT_EQ(row.violated[kTheta2Norm], 1);   // the truncated mean is not near −μ
      EXPECT_EQ(row.violated[kTheta2Along], 0);  // holds for every draw within the hyperplanes
    } else {
      EXPECT_NEAR(row.violated[kTheta2Norm], p, error);
    }
  }
}

// d = 50, n = 100, r₀ = 2: the constraint makes the classifier worse, and ε hardly matters. To first order
// the ratio is r₀² / √(r₀² + d/2n) without and r₀² / √(r₀² + 2d/n) with the constraint.
TEST(Theory, TheConstraintRaisesTheErrorRate) {
  TheorySettings settings;
  settings.dimensions = {50};
  settings.samples = {100};
  settings.signals = {2};
  settings.epsilons = {0.01, 1};
  settings.repeats = 400;
  for (const TheoryRow& row : measure_theory(settings)) {
    if (row.extended) continue;
    EXPECT_NEAR(row.fpr, std::isfinite(row.epsilon) ? 0.0368 : 0.0262, 0.001) << row.epsilon;
    EXPECT_EQ(row.fpr, row.fnr);
    EXPECT_EQ(row.violated[kTheorem], 0);
  }
}

TEST(Theory, FarSignalsAndSmallEpsilonsStayFinite) {
  for (bool extended : {false, true}) {
    for (double epsilon : {1e-6, 0.01, 1e4}) {
      for (const Trial& t : draw_trials({extended, 2, 20, 30, epsilon}, 20, 1)) {
        EXPECT_TRUE(std::isfinite(t.ratio));
        EXPECT_GT(t.ratio, 20);
      }
    }
  }
}

TEST(Theory, FollowsFromTheSeed) {
  const TheoryCase c{true, 3, 10, 2, 1};
  const auto first = draw_trials(c, 5, 1), again = draw_trials(c, 5, 1), other = draw_trials(c, 5, 2);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(first[i].ratio, again[i].ratio);
    EXPECT_NE(first[i].ratio, other[i].ratio);
  }
}

}  // namespace
}  // namespace poem
