#include "poem/calibration.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "expect_error.h"
#include "poem/detector.h"
#include "poem/metrics.h"
#include "poem/random.h"
#include "world/world.h"

namespace poem {
namespace {

// P(at least k of n) by Pascal's triangle and plain powers.
long double at_least(int n, int k, long double p) {
  std::vector<long double> row = {1};
  for (int i = 0; i < n; ++i) {
    row.push_back(0);
    for (size_t j = row.size() - 1; j > 0; --j) row[j] += row[j - 1];
  }
  long double sum = 0;
  for (int i = k; i <= n; ++i) sum += row[i] * std::pow(p, i) * std::pow(1 - p, n - i);
  return sum;
}

TEST(Calibration, TheEndsOfTheIntervalSolveTheBinomialEquations) {
  for (const int n : {1, 2, 19, 20, 24, 57}) {
    for (const double tpr : {0.05, 0.5, 0.9, 0.95, 0.99, 1.0}) {
      int k = 1;
      while (static_cast<double>(k) / n < tpr) ++k;
      const KeptShare kept = kept_share({tpr, n});
      EXPECT_NEAR(at_least(n, k, kept.low), 0.025, 1e-12) << n << " " << tpr;
      EXPECT_NEAR(at_least(n, k, kept.high), 0.975, 1e-12) << n << " " << tpr;
    }
  }
}

TEST(Calibration, WhereAllAreKeptItIsAPower) {
  for (const int64_t n : {1, 24, 1000, 1000000}) {
    const KeptShare kept = kept_share({1, n});
    EXPECT_NEAR(kept.low, std::pow(0.025, 1.0 / static_cast<double>(n)), 1e-12);
    EXPECT_NEAR(kept.high, std::pow(0.975, 1.0 / static_cast<double>(n)), 1e-12);
  }
}

// Beta(k, n − k + 1) with its mean k / (n + 1) and, for its skewness, the next term of Cornish and Fisher.
TEST(Calibration, OfManyImagesItIsNearlyNormal) {
  const double n = 1e6, share = 0.95, z = 1.959963985, deviation = std::sqrt(share * (1 - share) / n);
  const double middle = share * n / (n + 1) + (z * z - 1) * (1 - 2 * share) / (3 * n);
  const KeptShare kept = kept_share({share, static_cast<int64_t>(n)});
  EXPECT_NEAR(kept.low, middle - z * deviation, 2e-8);
  EXPECT_NEAR(kept.high, middle + z * deviation, 2e-8);
}

// Scores that are uniform: above a threshold lies a share of 1 − threshold of all there will ever be.
TEST(Calibration, TheIntervalHoldsInAsManyTrialsAsItSays) {
  constexpr int kTrials = 20000;
  const KeptShare kept = kept_share({0.95, 24});
  Stream stream(1, "calibration");
  int below = 0, above = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> scores(24);
    for (double& score : scores) score = stream.uniform();
    const double share = 1 - threshold_at_tpr(scores, 0.95);
    below += share < kept.low;
    above += share > kept.high;
  }
  EXPECT_NEAR(below, 0.025 * kTrials, 5 * std::sqrt(0.025 * kTrials));
  EXPECT_NEAR(above, 0.025 * kTrials, 5 * std::sqrt(0.025 * kTrials));
}

TEST(Calibration, SaysItInASentence) {
  EXPECT_EQ(
      to_text({0.5, 1}),
      "keeps 1 of 1 held-out ID images (asked: 50 %) and, with 95 % confidence, 2.5 to 97.5 % of new ones");
  EXPECT_EQ(
      to_text({0.95, 24}),  // 22 would be 91.7 %, 23 are 95.8 %
      "keeps 23 of 24 held-out ID images (asked: 95 %) and, with 95 % confidence, 78.9 to 99.0 % of new "
      "ones");
}

// Logits that are `sharpness` times too large: the labels are drawn from softmax(logits / sharpness).
struct Overconfident {
  at::Tensor logits, labels;
};
Overconfident overconfident(int64_t count, double sharpness) {
  Stream stream(3, "temperature");
  Overconfident data{at::empty({count, 4}, at::kDouble), at::empty({count}, at::kLong)};
  for (int64_t i = 0; i < count; ++i) {
    double weights[4], sum = 0;
    for (int64_t k = 0; k < 4; ++k) {
      const double logit = 3 * stream.uniform();
      data.logits[i][k] = sharpness * logit;
      sum += weights[k] = std::exp(logit);
    }
    double draw = sum * stream.uniform();
    int64_t label = 0;
    while (label < 3 && draw >= weights[label]) draw -= weights[label++];
    data.labels[i] = label;
  }
  return data;
}

// The mean of −log softmax(logits / T)[label], term by term.
double loss(const Overconfident& data, double temperature) {
  double sum = 0;
  for (int64_t i = 0; i < data.labels.size(0); ++i) {
    double all = 0;
    for (int64_t k = 0; k < 4; ++k) all += std::exp(data.logits[i][k].item<double>() / temperature);
    const double own = data.logits[i][data.labels[i].item<int64_t>()].item<double>() / temperature;
    sum += std::log(all) - own;
  }
  return sum / static_cast<double>(data.labels.size(0));
}

TEST(Temperature, IsThatOfAGridSearch) {
  const Overconfident data = overconfident(150, 2.5);
  const double found = *fit_temperature(data.logits, data.labels);
  double best = 0, least = 1e9;
  for (double temperature = 0.5; temperature < 8; temperature += 0.05) {
    if (const double value = loss(data, temperature); value < least)
      std::tie(least, best) = std::pair(value, temperature);
  }
  EXPECT_NEAR(found, best, 0.05);
  EXPECT_LE(loss(data, found), least);
  EXPECT_LT(loss(data, found), loss(data, found * 1.001));
  EXPECT_LT(loss(data, found), loss(data, found / 1.001));
}

TEST(Temperature, ThereIsNoneIfAllOrNothingIsKnown) {
  const at::Tensor logits = at::tensor({2.0, 1.0, 0.0, 3.0}, at::kDouble).view({2, 2});
  EXPECT_FALSE(fit_temperature(logits, at::tensor({0, 1}, at::kLong)));  // every label has the largest logit
  EXPECT_FALSE(fit_temperature(logits, at::tensor({1, 0}, at::kLong)));  // none has
  EXPECT_FALSE(fit_temperature(at::ones({2, 2}), at::tensor({1, 0}, at::kLong)));
}

// Two classes with probabilities p and 1 − p: logits log(p / (1 − p)) and 0.
TEST(CalibrationError, IsThatOfTwoBinsByHand) {
  const std::vector<double> confidences = {0.62, 0.65, 0.91, 0.92,
                                           0.93};  // bins (0.6, 0.667] and (0.867, 0.933]
  const std::vector<int64_t> labels = {0, 1, 0, 0, 1};
  const at::Tensor logits = at::zeros({5, 2}, at::kDouble);
  for (int64_t i = 0; i < 5; ++i) logits[i][0] = std::log(confidences[i] / (1 - confidences[i]));
  const double low = std::abs((0.62 + 0.65) / 2 - 0.5), high = std::abs((0.91 + 0.92 + 0.93) / 3 - 2.0 / 3);
  EXPECT_NEAR(calibration_error(logits, at::tensor(labels), 1), 0.4 * low + 0.6 * high, 1e-12);
  EXPECT_NEAR(calibration_error(logits * 3, at::tensor(labels), 3), 0.4 * low + 0.6 * high, 1e-12);
}

Detector untrained_detector() {
  NetworkSpec spec;
  spec.name = "wideresnet";
  spec.depth = 10;
  spec.classes = 8;
  return {make_network(spec, 5), make_score("energy"), std::nullopt, draw_world("train", 8, 1).class_names};
}

TEST(Calibrate, SetsBothThresholdsAndFitsTheTemperature) {
  Detector detector = untrained_detector();
  detector.temperature = 0.01;  // far too confident
  const ImageSet id = draw_world("test", 60, 3);
  CalibrationTarget target;
  target.tpr = 0.9;
  target.unsure = 0.95;
  const CalibrationOutcome outcome = calibrate(detector, id, target);
  std::vector<float> scores = to_floats(detector.scores(id));
  std::sort(scores.begin(), scores.end());
  EXPECT_EQ(detector.held_out, scores);
  EXPECT_EQ(*detector.threshold, scores[6]);         // 54 of 60 are 90 %
  EXPECT_EQ(detector.unsure->threshold, scores[3]);  // 57 are 95 %
  EXPECT_EQ(detector.calibration->images, 60);
  ASSERT_TRUE(outcome.temperature_fitted);
  const at::Tensor logits = detector.logits(id);
  EXPECT_EQ(*outcome.error_before, calibration_error(logits, id.labels, 0.01));
  EXPECT_LT(*outcome.error_after, *outcome.error_before);
  EXPECT_EQ(*outcome.error_after, calibration_error(logits, id.labels, detector.temperature));
  int known = 0, unsure = 0;
  for (const Verdict& verdict : detector.judge(id)) {
    known += verdict.known;
    unsure += verdict.unsure;
  }
  EXPECT_EQ(known, 54);
  EXPECT_EQ(unsure, 3);
}

// The temperature with the smallest error is rarely the most likely one.
TEST(Calibrate, KeepsATemperatureWithASmallerError) {
  Detector detector = untrained_detector();
  const ImageSet id = draw_world("test", 60, 3);
  const at::Tensor logits = detector.logits(id);
  double least = 1;
  for (double temperature = 0.05; temperature < 20; temperature *= 1.02) {
    const double error = calibration_error(logits, id.labels, temperature);
    if (error < least) std::tie(least, detector.temperature) = std::pair(error, temperature);
  }
  const double before = detector.temperature;
  const CalibrationOutcome outcome = calibrate(detector, id);
  EXPECT_EQ(*outcome.best_temperature, *fit_temperature(logits, id.labels));
  EXPECT_EQ(*outcome.error_before, least);
  EXPECT_GT(*outcome.error_after, least);
  EXPECT_FALSE(outcome.temperature_fitted);
  EXPECT_EQ(detector.temperature, before);
}

TEST(Calibrate, WithoutLabelsLeavesTheTemperature) {
  Detector detector = untrained_detector();
  detector.temperature = 1.5;
  ImageSet id = draw_world("test", 20, 3);
  id.labels.reset();
  const CalibrationOutcome outcome = calibrate(detector, id);
  EXPECT_FALSE(outcome.error_before || outcome.error_after || outcome.temperature_fitted);
  EXPECT_EQ(detector.temperature, 1.5);
  EXPECT_EQ(detector.calibration->tpr, 0.95);
}

TEST(Calibrate, RefusesSharesThatMakeNoSense) {
  Detector detector = untrained_detector();
  const ImageSet id = draw_world("test", 4, 3);
  CalibrationTarget target;
  target.unsure = 0.9;
  expect_error([&] { calibrate(detector, id, target); }, {"unsure", "0.9", "above the tpr 0.95"});
  target.unsure = 1.5;
  expect_error([&] { calibrate(detector, id, target); }, {"unsure", "1.5"});
  for (const double tpr : {0.0, -1.0, 1.01, std::nan("")})
    expect_error([&] { calibrate(detector, id, {tpr, std::nullopt}); }, {"tpr", "0.95 is usual"});
  EXPECT_FALSE(detector.threshold);
}

TEST(Calibrate, RefusesOutputsThatAreNotFinite) {
  const ImageSet id = draw_world("test", 4, 3);
  for (const double factor : {HUGE_VAL, std::nan("")}) {
    Detector detector = untrained_detector();
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : detector.network->parameters())
      if (name == "linear.weight") tensor.mul_(factor);
    expect_error([&] { calibrate(detector, id); }, {id.name, "not finite"});
    EXPECT_FALSE(detector.threshold);
  }
}

}  // namespace
}  // namespace poem
