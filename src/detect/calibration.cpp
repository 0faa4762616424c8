#include "poem/calibration.h"

#include <fmt/format.h>

#include <cmath>

#include "poem/metrics.h"

namespace poem {
namespace {

constexpr double kConfidence = 0.95;

// P(exactly i of n), each with probability p.
double binomial(int64_t n, int64_t i, double p) {
  const double log_choose = std::lgamma(n + 1.0) - std::lgamma(i + 1.0) - std::lgamma(n - i + 1.0);
  return std::exp(log_choose + static_cast<double>(i) * std::log(p) +
                  static_cast<double>(n - i) * std::log1p(-p));
}

// P(at least k of n), 0 < p < 1, which is also the distribution function of Beta(k, n − k + 1) at p. Summed
// from k away from the middle, where terms fall, so that no sum is of tiny numbers that hide a large one.
double at_least(int64_t n, int64_t k, double p) {
  const bool upper = static_cast<double>(k) > p * static_cast<double>(n);
  const double odds = p / (1 - p);
  double term = binomial(n, upper ? k : k - 1, p), sum = 0;
  for (int64_t i = upper ? k : k - 1; i >= 0 && i <= n && term > sum * 1e-17; i += upper ? 1 : -1) {
    sum += term;
    const auto at = static_cast<double>(i), all = static_cast<double>(n);
    term *= upper ? (all - at) / (at + 1) * odds : at / (all - at + 1) / odds;
  }
  return upper ? sum : 1 - sum;
}

// Where the distribution function of Beta(k, n − k + 1) is `share`.
double quantile(int64_t n, int64_t k, double share) {
  double low = 0, high = 1;
  while (true) {
    const double middle = 0.5 * (low + high);
    if (middle <= low || middle >= high) return middle;
    (at_least(n, k, middle) < share ? low : high) = middle;
  }
}

}  // namespace

bool is_possible(const Calibration& calibration) {
  constexpr int64_t kMost = 1000000000;  // more than anybody holds out
  return calibration.tpr > 0 && calibration.tpr <= 1 && calibration.images > 0 && calibration.images <= kMost;
}

KeptShare kept_share(const Calibration& calibration) {
  const int64_t n = calibration.images, k = count_at_tpr(n, calibration.tpr);
  return {quantile(n, k, (1 - kConfidence) / 2), quantile(n, k, (1 + kConfidence) / 2)};
}

std::string to_text(const Calibration& calibration) {
  const KeptShare kept = kept_share(calibration);
  return fmt::format(
      "keeps {} of {} held-out ID images (asked: {:.4g} %) and, with {:.0f} % confidence, {:.1f} to {:.1f} % "
      "of new ones",
      count_at_tpr(calibration.images, calibration.tpr), calibration.images, 100 * calibration.tpr,
      100 * kConfidence, 100 * kept.low, 100 * kept.high);
}

}  // namespace poem
