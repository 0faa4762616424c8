#include "train/epoch_report.h"

#include <gtest/gtest.h>

namespace poem {
namespace {

std::string line_of(const TeamReport& team) {
  EpochReport report;
  report.epoch = 3;
  report.train_seconds = 2;
  report.team = team;
  return to_text(report, 8);
}

std::string slow(const std::vector<double>& seconds) {
  const std::string line = line_of({0, 0, 0, seconds});
  const auto start = line.find("  slow: ");
  return start == std::string::npos ? "" : line.substr(start + 8);
}

TEST(EpochLine, SaysWhatRanksSent) {
  EXPECT_EQ(
      line_of({58149, 81300000, 999999, {2, 2}}),
      "epoch   3/8  loss 0.0000  2.0 s  2 ranks sent 58.1 kB each to mine, 1000.0 kB for the posterior, "
      "81.3 MB to train");
}

// The others are held up only if it takes a quarter longer, and more than a second.
TEST(EpochLine, NamesARankThatHoldsUpTheOthers) {
  EXPECT_EQ(slow({10, 10, 14}), "rank 2 worked 14.0 s, the others 10.0 s");
  EXPECT_EQ(slow({13, 9, 11, 10}), "rank 0 worked 13.0 s, the others 10.0 s");
  EXPECT_EQ(slow({3, 0}), "rank 0 worked 3.0 s, the others 0.0 s");
  EXPECT_EQ(slow({100, 124}), "");
  EXPECT_EQ(slow({1, 1.9}), "");
  EXPECT_EQ(slow({10, 10, 10}), "");
}

}  // namespace
}  // namespace poem
