#include "study/theory.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/interrupts.h"
#include "core/progress.h"
#include "poem/random.h"
#include "study/gaussian_model.h"

namespace poem {
namespace {

constexpr double kSpread = 0.25;  // of g and s, and of the test laws, in units of ‖μ‖

double spread_of(const TheoryCase& c) { return c.extended ? kSpread : 0; }

// Across μ, standardised: the squared lengths of the two sample means, and their product.
struct Across {
  double id_norm = 0, outlier_norm = 0, product = 0;
};

// Along μ: the means of the two samples.
struct Along {
  double id, outlier;
};

template <class Value, class Function>
std::vector<Value> for_repeats(int64_t repeats, Function value) {
  std::vector<Value> values(repeats);
  at::parallel_for(0, repeats, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) values[i] = value(i);
  });
  return values;
}

std::vector<Across> draw_across(int64_t dimension, int64_t repeats, uint64_t seed) {
  return for_repeats<Across>(repeats, [&](int64_t repeat) {
    Stream stream(seed, "theory-across", dimension, repeat);
    Across a;
    for (int64_t i = 1; i < dimension; ++i) {
      const double x = stream.normal(), y = stream.normal();
      a.id_norm += x * x;
      a.outlier_norm += y * y;
      a.product += x * y;
    }
    return a;
  });
}

// Mean over n points of r₀·(a number uniform in ±spread).
double mean_shift(const TheoryCase& c, Stream& stream) {
  if (!c.extended) return 0;
  double sum = 0;
  for (int64_t i = 0; i < c.samples; ++i) sum += stream.uniform(-kSpread, kSpread);
  return c.signal * sum / static_cast<double>(c.samples);
}

std::vector<Along> draw_along(const TheoryCase& c, int64_t repeats, uint64_t seed) {
  const auto n = static_cast<double>(c.samples);
  const bool constrained = std::isfinite(c.epsilon);
  const OutlierLaw law(c.signal, spread_of(c));
  const TruncatedLaw near(law, constrained ? law.half_width(c.epsilon) : 0);
  return for_repeats<Along>(repeats, [&](int64_t repeat) {
    Stream id(seed, "theory-id", c.samples, repeat),
        outliers(seed, constrained ? "theory-near" : "theory-outliers", c.samples, repeat);
    Along a{c.signal + mean_shift(c, id) + id.normal() / std::sqrt(n), 0};
    if (constrained) {
      for (int64_t i = 0; i < c.samples; ++i) a.outlier += near.quantile(outliers.uniform()) / n;
    } else {
      a.outlier = -c.signal + mean_shift(c, outliers) + outliers.normal() / std::sqrt(n);
    }
    return a;
  });
}

Trial make_trial(const TheoryCase& c, const Along& along, const Across& across) {
  const auto n = static_cast<double>(c.samples);
  Trial t;
  t.theta1_along = along.id - c.signal;
  t.theta2_along = -along.outlier - c.signal;
  t.along = c.signal + (t.theta1_along + t.theta2_along) / 2;
  t.theta1_norm = t.theta1_along * t.theta1_along + across.id_norm / n;
  t.theta2_norm = t.theta2_along * t.theta2_along + across.outlier_norm / n;
  t.norm = t.along * t.along + (across.id_norm + across.outlier_norm - 2 * across.product) / (4 * n);
  t.ratio = c.signal * t.along / std::sqrt(t.norm);
  return t;
}

std::vector<Trial> make_trials(const TheoryCase& c, const std::vector<Along>& along,
                               const std::vector<Across>& across) {
  std::vector<Trial> trials;
  for (size_t i = 0; i < along.size(); ++i) trials.push_back(make_trial(c, along[i], across[i]));
  return trials;
}

double squared_radius(const TheoryCase& c, double sigma) {  // R
  return (static_cast<double>(c.dimension) + 1 / sigma) / static_cast<double>(c.samples);
}

double least_along(const TheoryCase& c) {  // b, times ‖μ‖ as μᵀθ̂ is
  return (c.signal * c.signal - std::pow(c.signal, 1.5) - c.epsilon / 2) / 2;
}

TheoryRow summarise(const TheoryCase& c, const std::vector<Trial>& trials, double sigma) {
  TheoryRow row{c, {}, 0, 0, {}};
  const auto count = static_cast<double>(trials.size());
  double squares = 0;
  for (const Trial& trial : trials) {
    row.ratio.mean += trial.ratio / count;
    row.fpr += false_positive_rate(c, trial.ratio) / count;
    row.fnr += false_negative_rate(c, trial.ratio) / count;
    const auto violated = violations(trial, c, sigma);
    for (int step = 0; step < kSteps; ++step) row.violated[step] += violated[step] ? 1 : 0;
  }
  for (double& share : row.violated) share /= count;
  for (const Trial& trial : trials) squares += std::pow(trial.ratio - row.ratio.mean, 2);
  row.ratio.deviation = std::sqrt(squares / std::max(1.0, count - 1));
  return row;
}

}  // namespace

const std::array<const char*, kSteps> kStepNames = {
    "theta1_norm", "theta1_along", "theta2_norm", "theta2_along", "norm", "along", "theorem"};

double theorem_bound(const TheoryCase& c, double sigma) {
  return least_along(c) / std::sqrt(squared_radius(c, sigma) + c.signal * c.signal);
}

// P(θ̂ᵀx ≥ 0) of x ~ N(−μ + v, σ²I); the worst v of length ¼‖μ‖ points along θ̂.
double false_positive_rate(const TheoryCase& c, double ratio) {
  return upper_tail(ratio - spread_of(c) * c.signal);
}

// P(θ̂ᵀx < 0) of x ~ N((1 + s)μ, σ²I); the worst s is −¼.
double false_negative_rate(const TheoryCase& c, double ratio) {
  return upper_tail(ratio * (1 - spread_of(c)));
}

std::array<bool, kSteps> violations(const Trial& t, const TheoryCase& c, double sigma) {
  const double radius = squared_radius(c, sigma), r0 = c.signal;
  std::array<bool, kSteps> violated;
  violated[kTheta1Norm] = t.theta1_norm > radius;
  violated[kTheta1Along] = std::abs(t.theta1_along) > std::sqrt(r0);
  violated[kTheta2Norm] = t.theta2_norm > radius;
  violated[kTheta2Along] = std::abs(r0 * t.theta2_along) > r0 * r0 + c.epsilon / 2;
  violated[kNorm] = t.norm > radius + r0 * r0;
  violated[kAlong] = r0 * t.along < least_along(c);
  violated[kTheorem] = t.ratio < theorem_bound(c, sigma);
  return violated;
}

std::vector<Trial> draw_trials(const TheoryCase& c, int64_t repeats, uint64_t seed) {
  return make_trials(c, draw_along(c, repeats, seed), draw_across(c.dimension, repeats, seed));
}

std::vector<TheoryRow> measure_theory(const TheorySettings& settings) {
  std::vector<std::vector<Across>> across;
  for (int64_t d : settings.dimensions) across.push_back(draw_across(d, settings.repeats, settings.seed));
  std::vector<double> epsilons = settings.epsilons;
  epsilons.push_back(std::numeric_limits<double>::infinity());

  std::vector<TheoryRow> rows;
  Progress bar("theory", 2 * settings.samples.size() * settings.signals.size() * epsilons.size(), "settings");
  for (bool extended : {false, true}) {
    for (int64_t n : settings.samples) {
      for (double r0 : settings.signals) {
        for (double epsilon : epsilons) {
          TheoryCase c{extended, 0, n, r0, epsilon};
          const auto along = draw_along(c, settings.repeats, settings.seed);  // the same for every dimension
          for (size_t i = 0; i < across.size(); ++i) {
            c.dimension = settings.dimensions[i];
            rows.push_back(summarise(c, make_trials(c, along, across[i]), settings.sigma));
          }
          bar.advance(1);
          stop_if_interrupted();
        }
      }
    }
  }
  return rows;
}

}  // namespace poem
