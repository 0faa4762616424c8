#include "core/terminal.h"

#include <gtest/gtest.h>

#include "core/progress.h"
#include "core/text_table.h"

// tests/cli/terminal_test.sh drives the program through terminals of several kinds.
namespace poem {
namespace {

const Terminal kWide = {true, true, true, 80}, kPlain = {};

TEST(DisplayWidth, CountsCodePointsAndNoEscapes) {
  EXPECT_EQ(display_width(""), 0u);
  EXPECT_EQ(display_width("12.00 ± 2.83"), 12u);
  EXPECT_EQ(display_width(styled("━━", Style::kCyan, kWide) + "──"), 4u);
  EXPECT_EQ(display_width("\033[1"), 0u) << "a sequence that never ends";
}

TEST(Styled, IsPlainWithoutColours) {
  EXPECT_EQ(styled("a", Style::kBold, kWide), "\033[1ma\033[0m");
  EXPECT_EQ(styled("a", Style::kBold, kPlain), "a");
}

TEST(FitLine, LeavesOutTheHighestRankFirstAndCutsTheLast) {
  const std::vector<LinePart> parts = {{"epoch 1/2", 0}, {"━━━━", 2}, {"50 %", 1}};
  EXPECT_EQ(fit_line(parts, 21), "epoch 1/2  ━━━━  50 %");
  EXPECT_EQ(fit_line(parts, 20), "epoch 1/2  50 %");
  EXPECT_EQ(fit_line(parts, 14), "epoch 1/2");
  EXPECT_EQ(fit_line(parts, 3), "epo");
  EXPECT_EQ(fit_line(parts, 0), "");
  EXPECT_EQ(fit_line({}, 3), "");
  EXPECT_EQ(fit_line({{"äöü", 0}}, 2), "äö") << "never within a code point";
  EXPECT_EQ(fit_line({{"", 0}, {"b", 1}, {"", 2}, {"c", 3}}, 9), "b  c") << "no space for what is empty";
}

TEST(TimeLeft, FollowsTheLastStepAndTheBar) {
  // The first step: as the bar says, and all later steps like it.
  EXPECT_DOUBLE_EQ(time_left(-1, 2, 8, 3).step, 8);
  EXPECT_DOUBLE_EQ(time_left(-1, 2, 8, 3).job, 8 + 3 * 10);
  // While the pool is scored, the bar knows nothing of the training that follows; the last step does.
  EXPECT_DOUBLE_EQ(time_left(10, 2, 1, 3).step, 8);
  EXPECT_DOUBLE_EQ(time_left(10, 2, 1, 3).job, 8 + 3 * 10);
  // A step slower than the last one.
  EXPECT_DOUBLE_EQ(time_left(10, 9, 5, 1).step, 5);
  EXPECT_DOUBLE_EQ(time_left(10, 9, 5, 1).job, 5 + 10);
  EXPECT_DOUBLE_EQ(time_left(10, 12, 0, 0).job, 0);
}

TEST(Duration, IsShort) {
  EXPECT_EQ(duration_text(0.04), "0.0 s");
  EXPECT_EQ(duration_text(59.96), "1 min 00 s");
  EXPECT_EQ(duration_text(7509), "2 h 05 min");
}

TextTable table() {
  TextTable table{{"%", "FPR95 ↓"}, 1, {}};
  table.rows = {{{{"a"}, {"7.00 ± 1.00", true}}}, {{{"mean"}, {""}}, true}};
  return table;
}

TEST(TextTable, IsABoxWhereThereIsRoom) {
  const std::string box =
      "┌──────┬─────────────┐\n"
      "│ %    │     FPR95 ↓ │\n"
      "├──────┼─────────────┤\n"
      "│ a    │ 7.00 ± 1.00 │\n"
      "├──────┼─────────────┤\n"
      "│ mean │             │\n"
      "└──────┴─────────────┘\n";
  EXPECT_EQ(to_text(table(), {true, true, false, 22}), box);
  EXPECT_NE(to_text(table(), kWide).find("│ \033[1m7.00 ± 1.00\033[0m │"), std::string::npos);
  EXPECT_EQ(to_text(table(), {true, true, false, 21}),
            "%         FPR95 ↓\n"
            "a     7.00 ± 1.00\n"
            "\n"
            "mean\n");
}

TEST(TextTable, IsAsciiElsewhere) {
  const std::string plain =
      "%          FPR95 v\n"
      "a     7.00 +- 1.00\n"
      "\n"
      "mean\n";
  EXPECT_EQ(to_text(table(), kPlain), plain);
  EXPECT_EQ(to_text(table(), {true, false, false, 80}), plain) << "a terminal of another locale";
}

TEST(TextTable, MayBeEmpty) { EXPECT_EQ(to_text({{"a", "b"}, 1, {}}, kPlain), "a  b\n"); }

}  // namespace
}  // namespace poem
