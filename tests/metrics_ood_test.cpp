#include "poem/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "expect_error.h"
#include "poem/random.h"

namespace poem {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double share_from(const std::vector<double>& scores, double threshold) {
  double count = 0;
  for (double x : scores) count += x >= threshold;
  return count / static_cast<double>(scores.size());
}

// Average precision by its definition: for each threshold, recall and precision counted anew.
double average_precision(const std::vector<double>& positive, const std::vector<double>& negative) {
  std::set<double, std::greater<double>> thresholds(positive.begin(), positive.end());
  thresholds.insert(negative.begin(), negative.end());
  double sum = 0, last_recall = 0;
  for (double t : thresholds) {
    const double recall = share_from(positive, t);
    const double hits = recall * static_cast<double>(positive.size());
    const double misses = share_from(negative, t) * static_cast<double>(negative.size());
    sum += (recall - last_recall) * hits / (hits + misses);
    last_recall = recall;
  }
  return sum;
}

OodMetrics by_definition(const std::vector<double>& id, const std::vector<double>& ood) {
  OodMetrics m;
  for (double a : id) {
    for (double b : ood) m.auroc += a > b ? 1.0 : a == b ? 0.5 : 0.0;
  }
  m.auroc /= static_cast<double>(id.size() * ood.size());
  std::vector<double> negated_id, negated_ood, thresholds(id);
  for (double x : id) negated_id.push_back(-x);
  for (double x : ood) negated_ood.push_back(-x);
  m.aupr_in = average_precision(id, ood);
  m.aupr_out = average_precision(negated_ood, negated_id);
  thresholds.insert(thresholds.end(), ood.begin(), ood.end());
  m.detection_error = 0.5;
  m.threshold = -kInf;
  for (double t : thresholds) {
    const double tpr = share_from(id, t), fpr = share_from(ood, t);
    m.detection_error = std::min(m.detection_error, 0.5 * (1 - tpr) + 0.5 * fpr);
    if (tpr >= 0.95) m.threshold = std::max<double>(m.threshold, t);
  }
  m.fpr95 = share_from(ood, m.threshold);
  return m;
}

void expect_same(const OodMetrics& got, const OodMetrics& want) {
  EXPECT_DOUBLE_EQ(got.fpr95, want.fpr95);
  EXPECT_DOUBLE_EQ(got.threshold, want.threshold);
  EXPECT_NEAR(got.auroc, want.auroc, 1e-12);
  EXPECT_NEAR(got.aupr_in, want.aupr_in, 1e-12);
  EXPECT_NEAR(got.aupr_out, want.aupr_out, 1e-12);
  EXPECT_NEAR(got.detection_error, want.detection_error, 1e-12);
}

std::vector<double> random_scores(Stream& stream, size_t count, int distinct, double shift) {
  std::vector<double> scores(count);
  for (double& x : scores) x = 0.25 * static_cast<double>(stream.below(distinct)) + shift;
  return scores;
}

TEST(OodMetrics, AgreeWithTheirDefinitionsWhateverTheTies) {
  for (int trial = 0; trial < 300; ++trial) {
    Stream stream(1, "metrics", trial);
    const int distinct = 1 + static_cast<int>(stream.below(trial % 3 == 0 ? 1000 : 8));
    const auto id = random_scores(stream, 1 + stream.below(60), distinct, -0.5);
    const auto ood = random_scores(stream, 1 + stream.below(60), distinct, -1.0);
    SCOPED_TRACE(trial);
    expect_same(ood_metrics(id, ood), by_definition(id, ood));
  }
}

TEST(OodMetrics, AgreeOnSmallNegativeAndHugeScores) {
  const std::vector<double> id{1e-42, 3e38, -2.5, 7, 7, 0, kInf};
  const std::vector<double> ood{-1e-42, -3e38, -2.5, 7, 1e-30, -kInf, kInf};
  expect_same(ood_metrics(id, ood), by_definition(id, ood));
}

// float32 has one number for all of these.
TEST(OodMetrics, TellScoresApartThatFloat32CannotHold) {
  Stream stream(1, "near one");
  std::vector<double> id(400), ood(300);
  for (double& x : id) x = 1 - 1e-12 * (1 + 40 * stream.uniform());
  for (double& x : ood) x = 1 - 1e-9 * stream.uniform();
  const OodMetrics m = ood_metrics(id, ood);
  expect_same(m, by_definition(id, ood));
  EXPECT_GT(m.auroc, 0.95);
  EXPECT_LT(m.fpr95, 0.1);
  // Nor can it hold these; the order is the same, and so is every figure.
  for (const double scale : {1e300, 1e-300}) {
    std::vector<double> far_id(id), far_ood(ood);
    for (double& x : far_id) x *= scale;
    for (double& x : far_ood) x *= scale;
    const OodMetrics far = ood_metrics(far_id, far_ood);
    EXPECT_EQ(far.auroc, m.auroc);
    EXPECT_EQ(far.fpr95, m.fpr95);
    EXPECT_EQ(far.threshold, m.threshold * scale);
  }
  std::nth_element(id.begin(), id.begin() + 379, id.end(), std::greater<double>());
  EXPECT_EQ(threshold_at_tpr(id, 0.95), id[379]);
}

TEST(OodMetrics, OneScoreASide) {
  EXPECT_EQ(ood_metrics({2}, {1}).auroc, 1);
  EXPECT_EQ(ood_metrics({2}, {1}).fpr95, 0);
  EXPECT_EQ(ood_metrics({1}, {2}).auroc, 0);
  EXPECT_EQ(ood_metrics({1}, {2}).fpr95, 1);
  EXPECT_EQ(ood_metrics({1}, {2}).detection_error, 0.5);
}

TEST(OodMetrics, SeparatedScoresArePerfect) {
  const OodMetrics m = ood_metrics({3, 4, 5}, {0, 1, 2, 2});
  EXPECT_EQ(m.fpr95, 0);
  EXPECT_EQ(m.auroc, 1);
  EXPECT_EQ(m.aupr_in, 1);
  EXPECT_EQ(m.aupr_out, 1);
  EXPECT_EQ(m.detection_error, 0);
  EXPECT_EQ(m.threshold, 3);
  EXPECT_EQ(m.id_count, 3);
  EXPECT_EQ(m.ood_count, 4);
}

TEST(OodMetrics, AllEqualScoresSayNothing) {
  const OodMetrics m = ood_metrics({1, 1, 1}, {1});
  EXPECT_EQ(m.fpr95, 1);
  EXPECT_EQ(m.auroc, 0.5);
  EXPECT_EQ(m.aupr_in, 0.75);
  EXPECT_EQ(m.aupr_out, 0.25);
  EXPECT_EQ(m.detection_error, 0.5);
}

TEST(OodMetrics, BothZerosAreOneScore) {
  EXPECT_EQ(ood_metrics({0.0}, {-0.0}).auroc, 0.5);
  EXPECT_EQ(ood_metrics({-0.0}, {0.0}).auroc, 0.5);
}

TEST(OodMetrics, SwappingTheSidesMirrorsAuroc) {
  Stream stream(2, "metrics");
  const auto a = random_scores(stream, 500, 40, 0.5), b = random_scores(stream, 300, 40, 0);
  EXPECT_NEAR(ood_metrics(a, b).auroc + ood_metrics(b, a).auroc, 1, 1e-12);
}

TEST(OodMetrics, ManyDistinctScoresAreSorted) {  // every digit of the radix sort is used
  Stream stream(3, "metrics");
  std::vector<double> id(2000), ood(1500);
  for (double& x : id) x = static_cast<double>(std::exp(20 * stream.normal()) * (stream.uniform() - 0.4));
  for (double& x : ood) x = static_cast<double>(std::exp(20 * stream.normal()) * (stream.uniform() - 0.6));
  const OodMetrics want = by_definition(id, ood);
  expect_same(ood_metrics(id, ood), want);
}

TEST(OodMetrics, NanAndNothingAreErrorsThatSayWhere) {
  const std::vector<double> bad{0, 1, std::nanf("")};
  expect_error([&] { ood_metrics(bad, {1}); }, {"ID scores", "index 2 is NaN"});
  expect_error([&] { ood_metrics({1}, bad); }, {"OOD scores", "index 2 is NaN"});
  expect_error([&] { ood_metrics({}, {1}); }, {"ID scores", "no scores"});
  expect_error([&] { ood_metrics({1}, {}); }, {"OOD scores", "no scores"});
  EXPECT_THROW(threshold_at_tpr(bad, 0.95), Error);
  EXPECT_THROW(threshold_at_tpr({}, 0.95), Error);
}

TEST(ThresholdAtTpr, IsTheLargestThatKeepsTheShare) {
  for (int trial = 0; trial < 200; ++trial) {
    Stream stream(4, "threshold", trial);
    const auto id = random_scores(stream, 1 + stream.below(80), 1 + static_cast<int>(stream.below(30)), 0);
    const double tpr = trial % 2 ? 0.95 : 0.01 * static_cast<double>(1 + stream.below(100));
    double want = -kInf;
    for (double t : id) {
      if (share_from(id, t) >= tpr) want = std::max(want, t);
    }
    EXPECT_EQ(threshold_at_tpr(id, tpr), want) << trial;
  }
}

TEST(ThresholdAtTpr, RoundingDoesNotMoveTheCount) {
  std::vector<double> id;
  for (int i = 1; i <= 20; ++i) id.push_back(static_cast<double>(i));
  EXPECT_EQ(threshold_at_tpr(id, 0.95), 2);  // 19 of 20
  EXPECT_EQ(threshold_at_tpr(id, 1.0), 1);
  EXPECT_EQ(ood_metrics(id, {0}).threshold, 2);
  EXPECT_THROW(threshold_at_tpr(id, 0), Error);
  EXPECT_THROW(threshold_at_tpr(id, 1.01), Error);
  EXPECT_THROW(threshold_at_tpr(id, std::nan("")), Error);
}

}  // namespace
}  // namespace poem
