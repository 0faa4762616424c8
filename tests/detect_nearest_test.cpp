#include "detect/nearest.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace poem {
namespace {

// Every distance in float64, sorted.
double brute_force(const at::Tensor& a, const at::Tensor& known, int64_t k) {
  std::vector<double> squares;
  for (int64_t i = 0; i < known.size(0); ++i)
    squares.push_back((a - known[i]).to(at::kDouble).square().sum().item<double>());
  std::sort(squares.begin(), squares.end());
  return squares[k - 1];
}

TEST(KthNearestSquare, IsThatOfBruteForce) {
  at::manual_seed(3);
  const at::Tensor known = at::randn({53, 6}), query = at::randn({9, 6});
  known[20] = known[7];  // the same distance twice
  for (const int64_t k : {1, 2, 10, 53}) {
    for (const int64_t block : {1, 7, 53, 1000}) {  // smaller and larger than k, with and without a rest
      const at::Tensor squares = kth_nearest_square(query, known, k, block);
      ASSERT_EQ(squares.sizes(), at::IntArrayRef({9}));
      for (int64_t i = 0; i < query.size(0); ++i)
        EXPECT_NEAR(squares[i].item<double>(), brute_force(query[i], known, k), 1e-4) << k << ' ' << block;
    }
  }
}

TEST(KthNearestSquare, OfARowToItselfIsNotNegativeAndNaNStays) {
  const at::Tensor known = at::full({3, 4}, 0.1), query = at::full({2, 4}, 0.1);
  query[1][2] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor squares = kth_nearest_square(query, known, 2);
  EXPECT_GE(squares[0].item<float>(), 0);
  EXPECT_NEAR(squares[0].item<float>(), 0, 1e-6);
  EXPECT_TRUE(std::isnan(squares[1].item<float>()));
}

}  // namespace
}  // namespace poem
