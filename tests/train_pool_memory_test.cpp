#include <gtest/gtest.h>

#include "train/memory.h"

namespace poem {
namespace {

// Per image 16 bytes for the crop, and of a process's part 16 for its copy and 56 for scores.
TEST(PoolBytes, AreCountedByHand) {
  const PoolScoring thompson{true, true, true, 1};
  EXPECT_DOUBLE_EQ(pool_bytes({{1000, 0}}, thompson, 1), 1000 * (16 + 72));
  EXPECT_DOUBLE_EQ(pool_bytes({{1000, 0}}, thompson, 4), 1000 * 16 + 250 * 72);
  EXPECT_DOUBLE_EQ(pool_bytes({{1000, 5000}}, thompson, 1), 1000 * (16 + 72));
  EXPECT_DOUBLE_EQ(pool_bytes({{1000, 5000}}, thompson, 4), 1000 * 56) << "all of them are drawn";
  EXPECT_DOUBLE_EQ(pool_bytes({{1000, 500}}, thompson, 4), 1000 * 16 + 250 * 72) << "none is drawn";
  EXPECT_DOUBLE_EQ(pool_bytes({{1000, 501}}, thompson, 40), 499 * 56) << "all but two have a second crop";
  EXPECT_DOUBLE_EQ(pool_bytes({{600, 0}, {400, 5000}}, thompson, 40), 2 * 16 * 1000) << "put together";
  EXPECT_DOUBLE_EQ(pool_bytes({{100, 0}, {900, 5000}}, thompson, 40), 16 * 100 + 56 * 900);
  EXPECT_DOUBLE_EQ(pool_bytes({{1000, 0}}, thompson, 1000), 1000 * 24) << "crops and labels";
}

TEST(PoolBytes, DependOnTheMiner) {
  MiningSettings settings;
  const auto each = [&](const char* miner, double processes) {
    settings.miner = miner;
    return pool_bytes({{1000, 0}}, scoring_of(settings), processes) / 1000;
  };
  EXPECT_DOUBLE_EQ(each("thompson", 1), 88);
  EXPECT_DOUBLE_EQ(each("mean", 4), 16 + 72 / 4.0);
  EXPECT_DOUBLE_EQ(each("greedy", 1), 48);
  EXPECT_DOUBLE_EQ(each("dos", 4), 16 + 16 + 8 + 16 + 2 * (8 + 8 + 4 + 4)) << "each process scores all";
  EXPECT_DOUBLE_EQ(each("diverse", 4), 16 + 16 + 8 + 16 + 2 * (8 + 8 + 4 + 12));
  EXPECT_DOUBLE_EQ(each("random", 4), 48);
  settings.candidates = 0.2;  // three scores of all images, four and an entry of candidates, two more copies
  EXPECT_DOUBLE_EQ(each("thompson", 1), 16 + 16 + 16 + 12 + 0.2 * (16 + 8));
  settings.candidates = 0.5;  // entries, a growing list of crops, scores and products of candidates
  EXPECT_DOUBLE_EQ(each("thompson", 1), 16 + 16 + 0.5 * (8 + 32 + 56));
}

}  // namespace
}  // namespace poem
