// Paired differences over seeds, against tables of Student's t and figures worked out by hand.
#include "study/differences.h"

#include <gtest/gtest.h>

#include <cmath>

namespace poem {
namespace {

CellResult cell(size_t method, int64_t seed, double fpr95) {
  CellResult cell{0, method, seed, "run", "energy", 60, {}, {}};
  cell.results["mean"]["fpr95"] = fpr95;
  return cell;
}

Study study_of(size_t methods) {
  Study study;
  study.settings = {{"", {}}};
  for (size_t i = 0; i < methods; ++i)
    study.methods.push_back({std::string(1, static_cast<char>('a' + i)), {}, {}});
  return study;
}

std::optional<Differences> compare(size_t methods, const std::vector<CellResult>& results,
                                   size_t setting = 0) {
  return differences_from_best(study_of(methods), results, setting, study_column("fpr95"));
}

TEST(StudentQuantile, EqualsTheTable) {
  const std::tuple<double, int64_t, double> table[] = {
      {0.95, 1, 12.7062}, {0.95, 2, 4.3027},  {0.95, 3, 3.1824}, {0.95, 4, 2.7764},
      {0.95, 9, 2.2622},  {0.95, 30, 2.0423}, {0.99, 4, 4.6041}, {0.99, 5, 4.0321}};
  for (const auto& [share, freedom, expected] : table)
    EXPECT_NEAR(student_quantile(share, freedom), expected, 5e-5) << freedom;
}

// The density integrated in small steps gives the share back.
TEST(StudentQuantile, HoldsItsShare) {
  for (const int64_t freedom : {1, 2, 3, 4, 7, 10}) {
    const double share = 0.9, t = student_quantile(share, freedom), n = static_cast<double>(freedom);
    const double scale =
        std::exp(std::lgamma((n + 1) / 2) - std::lgamma(n / 2)) / std::sqrt(n * std::acos(-1.0));
    constexpr int kSteps = 200000;
    double sum = 0;
    for (int i = 0; i < kSteps; ++i) {
      const double x = t * (i + 0.5) / kSteps;
      sum += 2 * t / kSteps * scale * std::pow(1 + x * x / n, -(n + 1) / 2);
    }
    EXPECT_NEAR(sum, share, 1e-8) << freedom;
  }
}

TEST(Differences, ArePairedOverSeeds) {
  // Both methods swing with the seed by far more than they differ: 2, 3 and 4 points.
  const std::vector<CellResult> results = {cell(0, 0, 0.12), cell(0, 1, 0.43), cell(0, 2, 0.84),
                                           cell(1, 0, 0.10), cell(1, 1, 0.40), cell(1, 2, 0.80)};
  const auto found = compare(2, results);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->best, 1);
  EXPECT_DOUBLE_EQ(found->level, 0.95);
  ASSERT_EQ(found->others.size(), 1);
  EXPECT_EQ(found->others[0].method, 0);
  EXPECT_NEAR(found->others[0].mean, 3, 1e-9);
  EXPECT_NEAR(*found->others[0].half, 4.30265 / std::sqrt(3.0), 1e-4);  // deviation 1
  EXPECT_TRUE(found->others[0].told_apart());
}

TEST(Differences, ShareTheErrorOfAllComparisons) {
  std::vector<CellResult> results;
  for (size_t method = 0; method < 6; ++method) {
    for (int64_t seed = 0; seed < 5; ++seed)
      results.push_back(cell(method, seed,
                             0.1 + 0.1 * static_cast<double>(method) +
                                 0.01 * (seed % 2 ? -1 : 1) * static_cast<double>(method)));
  }
  const auto found = compare(6, results);
  EXPECT_DOUBLE_EQ(found->level, 1 - 0.05 / 15);  // fifteen pairs
  // Method 1: 10 ± 1, the sign by seed: + − + − +; deviation √1.2 about 10.2.
  EXPECT_NEAR(found->others[0].mean, 10.2, 1e-9);
  EXPECT_NEAR(*found->others[0].half, 6.25407 * std::sqrt(1.2 / 5), 1e-4);
}

TEST(Differences, SayNothingWhereThereIsNothingToSay) {
  EXPECT_FALSE(compare(2, {}));
  EXPECT_FALSE(compare(2, {cell(0, 0, 0.5)}));
  EXPECT_FALSE(compare(2, {cell(0, 0, 0.5), cell(1, 0, 0.4)}, 1));
  const auto one = compare(2, {cell(0, 0, 0.5), cell(1, 0, 0.4)});
  EXPECT_FALSE(one->others[0].half);
  EXPECT_FALSE(one->others[0].told_apart());
  // A lucky single seed is no rival of a method with all seeds; without a seed in common nothing is compared.
  const auto partial = compare(3, {cell(0, 0, 0.5), cell(0, 1, 0.6), cell(1, 0, 0.1), cell(2, 7, 0.2)});
  EXPECT_EQ(partial->best, 0);
  ASSERT_EQ(partial->others.size(), 1);
  EXPECT_EQ(partial->others[0].seeds, 1);
}

}  // namespace
}  // namespace poem
