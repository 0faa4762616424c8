#include "poem/calibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "poem/metrics.h"
#include "poem/random.h"

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

}  // namespace
}  // namespace poem
