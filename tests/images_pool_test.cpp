#include "images/pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "poem/error.h"

namespace poem {
namespace {

bool ordered(const std::vector<Crop>& pool) {
  return std::is_sorted(pool.begin(), pool.end(),
                        [](const Crop& a, const Crop& b) { return a.image < b.image; });
}

std::vector<int64_t> images_of(const std::vector<Crop>& pool) {
  std::vector<int64_t> images;
  for (const Crop& crop : pool) images.push_back(crop.image);
  return images;
}

TEST(Pool, SmallerThanTheSourceHoldsDistinctImages) {
  for (int64_t size : {1, 17, 99, 100}) {
    const auto pool = draw_pool(100, size, 1, 0);
    ASSERT_EQ(pool.size(), static_cast<size_t>(size));
    EXPECT_TRUE(ordered(pool));
    const auto images = images_of(pool);
    EXPECT_EQ(std::set<int64_t>(images.begin(), images.end()).size(), pool.size());
    EXPECT_GE(images.front(), 0);
    EXPECT_LT(images.back(), 100);
  }
}

TEST(Pool, LargerThanTheSourceRepeatsEveryImageEvenly) {
  for (int64_t size : {101, 200, 250, 399}) {
    const auto pool = draw_pool(100, size, 1, 0);
    ASSERT_EQ(pool.size(), static_cast<size_t>(size));
    EXPECT_TRUE(ordered(pool));
    std::vector<int64_t> times(100);
    for (int64_t image : images_of(pool)) ++times[image];
    for (int64_t n : times) {
      EXPECT_GE(n, size / 100);
      EXPECT_LE(n, (size + 99) / 100);
    }
  }
}

TEST(Pool, EveryCropIsItsOwn) {
  const auto pool = draw_pool(10, 10000, 1, 0);
  std::set<uint64_t> seeds;
  for (const Crop& crop : pool) seeds.insert(crop.seed);
  EXPECT_EQ(seeds.size(), pool.size());
}

TEST(Pool, IsUniformOverTheSource) {
  std::vector<int> below(20), above(20);
  const int epochs = 20000;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (int64_t image : images_of(draw_pool(20, 5, 3, epoch))) ++below[image];
    for (int64_t image : images_of(draw_pool(20, 25, 3, epoch))) ++above[image];
  }
  const double tolerance = 5 * std::sqrt(epochs * 0.25 * 0.75);  // five standard errors
  for (int count : below) EXPECT_NEAR(count, epochs * 0.25, tolerance);
  for (int count : above) EXPECT_NEAR(count, epochs * 1.25, tolerance);
}

TEST(Pool, IsAFunctionOfSeedAndEpoch) {
  const auto pool = draw_pool(1000, 100, 1, 2), again = draw_pool(1000, 100, 1, 2);
  for (size_t i = 0; i < pool.size(); ++i) {
    EXPECT_EQ(pool[i].image, again[i].image);
    EXPECT_EQ(pool[i].seed, again[i].seed);
  }
  EXPECT_NE(images_of(pool), images_of(draw_pool(1000, 100, 1, 3)));
  EXPECT_NE(images_of(pool), images_of(draw_pool(1000, 100, 2, 2)));
  EXPECT_NE(draw_pool(10, 10, 1, 2)[0].seed, draw_pool(10, 10, 1, 3)[0].seed);
}

TEST(Pool, RefusesEmptySourcesAndSizes) {
  EXPECT_THROW(draw_pool(0, 5, 1, 0), Error);
  EXPECT_THROW(draw_pool(5, 0, 1, 0), Error);
}

}  // namespace
}  // namespace poem
