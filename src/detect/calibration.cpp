#include "poem/calibration.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "poem/detector.h"
#include "poem/error.h"
#include "poem/evaluate.h"
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

// The derivative of the mean of −log softmax(β logits)[label] by β. It rises with β, because the mean is
// convex in β.
double slope(const at::Tensor& logits, const at::Tensor& labels, double beta) {
  const at::Tensor expected = ((beta * logits).softmax(1) * logits).sum(1);
  return (expected - logits.gather(1, labels.unsqueeze(1)).squeeze(1)).mean().item<double>();
}

// From such outputs neither a threshold nor a temperature follows.
void check_finite_outputs(const Batch& batch, const std::vector<float>& scores, const std::string& images) {
  const bool finite = std::all_of(scores.begin(), scores.end(), [](float x) { return std::isfinite(x); });
  if (!finite || !at::isfinite(batch.logits).all().item<bool>())
    throw Error(images, "has an image for which the detector gives logits or a score that are not finite",
                "train the detector again, with a lower learning rate");
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
  const std::string images =
      calibration.source.empty() ? "held-out ID images" : "images of " + calibration.source;
  return fmt::format(
      "keeps {} of {} {} (asked: {:.4g} %) and, with {:.0f} % confidence, {:.1f} to {:.1f} % of new ones",
      count_at_tpr(calibration.images, calibration.tpr), calibration.images, images, 100 * calibration.tpr,
      100 * kConfidence, 100 * kept.low, 100 * kept.high);
}

void set_threshold(Detector& detector, std::vector<float> scores, double tpr) {
  detector.threshold = threshold_at_tpr({scores.begin(), scores.end()}, tpr);
  detector.calibration = Calibration{tpr, static_cast<int64_t>(scores.size())};
  detector.unsure.reset();
  std::sort(scores.begin(), scores.end());
  detector.held_out = std::move(scores);
}

std::optional<double> fit_temperature(const at::Tensor& logits, const at::Tensor& labels) {
  constexpr double kSmallest = 1e-3, kLargest = 1e3;
  const at::Tensor exact = logits.to(at::kDouble);
  double low = 1 / kLargest, high = 1 / kSmallest;  // of β = 1 / T
  if (slope(exact, labels, low) >= 0 || slope(exact, labels, high) <= 0) return std::nullopt;
  while (high / low > 1 + 1e-12) {
    const double middle = std::sqrt(low * high);
    (slope(exact, labels, middle) < 0 ? low : high) = middle;
  }
  return 1 / std::sqrt(low * high);
}

double calibration_error(const at::Tensor& logits, const at::Tensor& labels, double temperature) {
  constexpr int64_t kBins = 15;
  const auto [confidence, predicted] = (logits.to(at::kDouble) / temperature).softmax(1).max(1);
  // Bins are open on the left: (0, 1/15], (1/15, 2/15], …
  const at::Tensor bin = ((confidence * kBins).ceil() - 1).clamp(0, kBins - 1).to(at::kLong);
  const at::Tensor excess = confidence - (predicted == labels).to(at::kDouble);
  return at::bincount(bin, excess, kBins).abs().sum().item<double>() / static_cast<double>(labels.size(0));
}

void check_target(const CalibrationTarget& target) {
  if (!(target.tpr > 0 && target.tpr <= 1))
    throw Error("tpr", fmt::format("is {}, not above 0 and at most 1", target.tpr), "0.95 is usual");
  if (target.unsure && !(*target.unsure > target.tpr && *target.unsure <= 1))
    throw Error("unsure",
                fmt::format("is {}, not above the tpr {} and at most 1", *target.unsure, target.tpr),
                "the verdict is unsure between the thresholds that keep these two shares");
}

CalibrationOutcome calibrate(Detector& detector, const ImageSet& id, const CalibrationTarget& target) {
  check_target(target);
  check_fits(detector.network->spec().channels, detector.class_names, {id, {}});
  std::vector<float> scores;
  std::vector<at::Tensor> blocks;
  detector.for_each_batch(id, [&](const Batch& batch) {
    const std::vector<float> block = to_floats((*detector.score)(batch));
    check_finite_outputs(batch, block, id.name);
    scores.insert(scores.end(), block.begin(), block.end());
    blocks.push_back(batch.logits);
  });
  const std::vector<double> exact(scores.begin(), scores.end());
  set_threshold(detector, std::move(scores), target.tpr);
  detector.calibration->source = id.name;
  if (target.unsure) detector.unsure = UnsureRange{threshold_at_tpr(exact, *target.unsure), *target.unsure};
  CalibrationOutcome outcome;
  if (!id.labelled() || !detector.network->classifies()) return outcome;
  const at::Tensor logits = at::cat(blocks), labels = labels_among(id, detector.class_names);
  outcome.error_before = calibration_error(logits, labels, detector.temperature);
  outcome.best_temperature = fit_temperature(logits, labels);
  outcome.error_after =
      calibration_error(logits, labels, outcome.best_temperature.value_or(detector.temperature));
  outcome.temperature_fitted = outcome.best_temperature && *outcome.error_after <= *outcome.error_before;
  if (outcome.temperature_fitted) detector.temperature = *outcome.best_temperature;
  return outcome;
}

}  // namespace poem
