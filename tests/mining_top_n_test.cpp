#include "mining/top_n.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "expect_error.h"
#include "poem/random.h"

namespace poem {
namespace {

std::vector<int64_t> by_full_sort(const std::vector<float>& scores, int64_t n) {
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
  order.resize(n);
  std::sort(order.begin(), order.end());
  return order;
}

std::vector<int64_t> in_blocks(const std::vector<float>& scores, int64_t n, int64_t block) {
  const auto count = static_cast<int64_t>(scores.size());
  TopN best(n);
  for (int64_t i = 0; i < count; i += block) best.offer(&scores[i], std::min(block, count - i), i);
  return best.take();
}

// `distinct` values on both sides of zero: the fewer, the more ties.
std::vector<float> random_scores(uint64_t trial, int64_t count, uint64_t distinct) {
  Stream stream(1, "select", trial);
  std::vector<float> scores(count);
  for (float& x : scores)
    x = static_cast<float>(stream.below(distinct)) - 0.3f * static_cast<float>(distinct);
  return scores;
}

TEST(TopN, AgreesWithAFullSortForEveryBlockSize) {
  for (uint64_t distinct : {1u, 2u, 7u, 300u, 1000000u}) {
    const auto scores = random_scores(distinct, 5000, distinct);
    for (int64_t n : {1, 10, 700, 2500, 4999, 5000}) {
      const auto want = by_full_sort(scores, n);
      for (int64_t block : {1, 13, 1000, 5000}) {
        ASSERT_EQ(in_blocks(scores, n, block), want) << distinct << " values, " << n << " by " << block;
      }
    }
  }
}

TEST(TopN, BlocksMayComeInAnyOrder) {
  const auto scores = random_scores(9, 6000, 5);
  TopN best(500);
  for (int64_t i = 5900; i >= 0; i -= 100) best.offer(&scores[i], 100, i);
  EXPECT_EQ(best.take(), by_full_sort(scores, 500));
}

TEST(TopN, RisingScoresReplaceEverythingKept) {  // the worst case for the floor
  std::vector<float> scores(20000);
  std::iota(scores.begin(), scores.end(), -1e4f);
  EXPECT_EQ(in_blocks(scores, 100, 512), by_full_sort(scores, 100));
}

TEST(TopN, InfinitiesAndBothZerosHaveTheirPlace) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(in_blocks({-inf, 1, inf, -inf}, 3, 2), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(in_blocks({-1, -0.0f, 0.0f, -0.0f}, 2, 4), (std::vector<int64_t>{1, 2}));
}

TEST(TopN, NothingWantedGivesNothing) {
  EXPECT_TRUE(TopN(0).take().empty());
  EXPECT_TRUE(in_blocks(random_scores(3, 5000, 10), 0, 100).empty());
}

TEST(TopN, TooFewNegativeAndNanAreErrors) {
  expect_error([] { in_blocks({1, 2}, 3, 2); }, {"3 are to be selected", "only 2 were offered"});
  EXPECT_THROW(TopN(1).take(), Error);
  EXPECT_THROW(TopN(-1), Error);
  expect_error([] { in_blocks({1, 2, 3, std::nanf(""), 5}, 1, 2); }, {"index 3 is NaN"});
}

}  // namespace
}  // namespace poem
