#include "poem/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace poem {
namespace {

TEST(Stream, DependsOnEveryPartOfItsKey) {
  std::set<uint64_t> first;
  first.insert(Stream(1, "a").bits64());
  first.insert(Stream(2, "a").bits64());
  first.insert(Stream(1, "b").bits64());
  first.insert(Stream(1, "a", 1).bits64());
  first.insert(Stream(1, "a", 0, 1).bits64());
  EXPECT_EQ(first.size(), 5u);
  EXPECT_EQ(Stream(1, "a", 2, 3).bits64(), Stream(1, "a", 2, 3).bits64());
}

TEST(Stream, UniformAndNormalHaveTheirMoments) {
  Stream stream(3, "moments");
  const int n = 200000;
  double mean = 0, square = 0, uniform = 0;
  for (int i = 0; i < n; ++i) {
    const double x = stream.normal();
    mean += x / n;
    square += x * x / n;
    const double u = stream.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    uniform += u / n;
  }
  // Five standard errors.
  EXPECT_NEAR(mean, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(square, 1, 5 * std::sqrt(2.0 / n));
  EXPECT_NEAR(uniform, 0.5, 5 * std::sqrt(1.0 / 12 / n));
}

TEST(Stream, BelowReachesEveryValueEqually) {
  Stream stream(4, "below");
  std::vector<int> seen(7);
  for (int i = 0; i < 70000; ++i) ++seen[stream.below(7)];
  for (int count : seen) EXPECT_NEAR(count, 10000, 5 * 93);
}

TEST(Permutation, HoldsEachNumberOnce) {
  Stream stream(5, "order");
  auto order = permutation(1000, stream);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  for (int64_t i = 0; i < 1000; ++i) EXPECT_EQ(order[i], i);
}

TEST(Sample, IsDistinctSortedAndUniform) {
  std::vector<int> seen(20);
  for (int trial = 0; trial < 20000; ++trial) {
    Stream stream(6, "sample", trial);
    const auto chosen = sample(20, 5, stream);
    ASSERT_EQ(chosen.size(), 5u);
    ASSERT_TRUE(std::is_sorted(chosen.begin(), chosen.end()));
    ASSERT_TRUE(std::adjacent_find(chosen.begin(), chosen.end()) == chosen.end());
    for (int64_t x : chosen) ++seen[x];
  }
  for (int count : seen) EXPECT_NEAR(count, 5000, 5 * 61);
  Stream stream(6, "all");
  EXPECT_EQ(sample(4, 4, stream).size(), 4u);
}

}  // namespace
}  // namespace poem
