// The paper's section 6, measured: does training on outliers near the boundary improve the classifier
// θ̂ = (Σ x′ − Σ x) / 2n of n ID points x′ and n outliers x, and which steps of the proof hold?
//
//   for (const TheoryRow& row : measure_theory({}))
//     fmt::print("{} {}\n", row.epsilon, row.ratio.mean);
//
// Lengths are in units of σ. Only what the result depends on is drawn. The n outliers' components along μ are
// drawn one by one, because their law is truncated. Across μ nothing is truncated: there the mean of n points
// is a Gaussian of variance 1/n in d − 1 dimensions, and only this mean is drawn. All rows share these draws,
// so that their differences are not due to chance.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace poem {

struct TheorySettings {
  std::vector<int64_t> dimensions = {2, 50, 500};                           // d
  std::vector<int64_t> samples = {20, 100, 1000};                           // n = n′
  std::vector<double> signals = {2, 4, 8};                                  // r₀ = ‖μ‖/σ
  std::vector<double> epsilons = {0.01, 0.1, 0.3, 1, 3, 10, 30, 100, 300};  // the theorem needs ε ≤ 1
  double sigma = 1;  // affects only the bound, not what is measured
  int64_t repeats = 1000;
  uint64_t seed = 0;
};

// What the proof claims about a trial. In units of σ, with R = (d + 1/σ)/n and b = (r₀² − r₀^(3/2) − ε/2)/2:
enum Step {
  kTheta1Norm,   // ‖θ₁‖² ≤ R, θ₁ the error of the ID mean
  kTheta1Along,  // |μᵀθ₁| / ‖μ‖ ≤ r₀^(1/2)
  kTheta2Norm,   // ‖θ₂‖² ≤ R, θ₂ the error of the outliers' mean
  kTheta2Along,  // |μᵀθ₂| ≤ r₀² + ε/2
  kNorm,         // ‖θ̂‖² ≤ R + r₀²
  kAlong,        // μᵀθ̂ ≥ b
  kTheorem,      // μᵀθ̂ / ‖θ̂‖ ≥ b / √(R + r₀²)
  kSteps
};
extern const std::array<const char*, kSteps> kStepNames;

// One θ̂ = μ + ½θ₁ + ½θ₂, reduced to squared lengths and components along μ.
struct Trial {
  double theta1_norm, theta2_norm, norm;
  double theta1_along, theta2_along, along;
  double ratio;  // μᵀθ̂ / (σ‖θ̂‖)
};

struct TheoryCase {
  bool extended;  // the appendix's model: g and s uniform in ±¼
  int64_t dimension, samples;
  double signal, epsilon;  // an infinite ε means outliers without the constraint
};

// The rates of a θ̂ with this ratio μᵀθ̂ / (σ‖θ̂‖). In the extended model they are those of the worst test law
// that it allows: OOD moved by ¼‖μ‖ towards ID, and ID with s = −¼ (for a positive ratio).
double false_positive_rate(const TheoryCase& c, double ratio);
double false_negative_rate(const TheoryCase& c, double ratio);

double theorem_bound(const TheoryCase& c, double sigma);  // the theorem's lower bound of the ratio
std::array<bool, kSteps> violations(const Trial& trial, const TheoryCase& c, double sigma);

struct Moments {
  double mean = 0, deviation = 0;
};

struct TheoryRow : TheoryCase {
  Moments ratio;
  double fpr, fnr;                      // means over the trials
  std::array<double, kSteps> violated;  // shares of the trials; meaningless in the extended model
};

// The trials of one case. They depend only on the case and the seed.
std::vector<Trial> draw_trials(const TheoryCase& c, int64_t repeats, uint64_t seed);
std::vector<TheoryRow> measure_theory(const TheorySettings& settings);  // Ctrl-C throws Interrupted

}  // namespace poem
