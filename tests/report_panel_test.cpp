#include <gtest/gtest.h>

#include <cmath>

#include "report/panel_piece.h"

namespace poem {
namespace {

const Axis kX = {"x", -2, 2}, kY = {"y", -1, 3};

// f at the centres of the cells.
template <class Function>
std::vector<double> field(int64_t side, Function f) {
  std::vector<double> values;
  for (int64_t row = 0; row < side; ++row) {
    for (int64_t column = 0; column < side; ++column) {
      const auto at = [&](const Axis& axis, int64_t i) {
        return axis.low + (axis.high - axis.low) * (static_cast<double>(i) + 0.5) / static_cast<double>(side);
      };
      values.push_back(f(at(kX, column), at(kY, row)));
    }
  }
  return values;
}

TEST(Contour, OfAConeIsACircle) {
  const Line line =
      contour(field(80, [](double x, double y) { return std::hypot(x - 0.3, y - 1.2); }), 80, 80, 1, kX, kY);
  double length = 0;
  ASSERT_EQ(line.x.size(), line.y.size());
  ASSERT_EQ(line.x.size() % 3, 0u);
  for (size_t i = 0; i < line.x.size(); i += 3) {  // pieces of two ends and a gap
    for (size_t end : {i, i + 1}) EXPECT_NEAR(std::hypot(line.x[end] - 0.3, line.y[end] - 1.2), 1, 1e-3);
    EXPECT_TRUE(std::isnan(line.x[i + 2]) && std::isnan(line.y[i + 2]));
    length += std::hypot(line.x[i] - line.x[i + 1], line.y[i] - line.y[i + 1]);
  }
  EXPECT_NEAR(length, 2 * std::acos(-1.), 0.01) << "closed, and each piece once";
}

TEST(Contour, OfAPlaneIsExact) {
  const Line line = contour(field(7, [](double x, double) { return 3 * x; }), 7, 7, 1.5, kX, kY);
  EXPECT_EQ(line.x.size(), 3u * 6);
  for (size_t i = 0; i + 1 < line.x.size(); i += 3) {
    EXPECT_NEAR(line.x[i], 0.5, 1e-12);
    EXPECT_NEAR(line.x[i + 1], 0.5, 1e-12);
  }
}

TEST(Contour, OfASaddleHasTwoPieces) { EXPECT_EQ(contour({1, -1, -1, 1}, 2, 2, 0, kX, kY).x.size(), 6u); }

TEST(Contour, MayBeNowhere) {
  EXPECT_TRUE(contour(std::vector<double>(9, 0), 3, 3, 0, kX, kY).x.empty())
      << "the level itself counts as above";
  EXPECT_TRUE(contour({1}, 1, 1, 0, kX, kY).x.empty());
}

TEST(PanelPiece, RoundsStrengthsAndPacksNumbers) {
  Panel panel{"t", kX, kY, {}, {}, {}};
  panel.heat_maps.push_back({1, 4, {0, 0.5, 1, 7}, Ink::kBlue, "h", true});
  panel.points.push_back({{1}, {2}, Ink::kGreen, 1, "p"});
  const nlohmann::json piece = panel_piece(panel, true);
  EXPECT_EQ(piece["kind"], "panel");
  EXPECT_EQ(piece["cells"][0]["strengths"], "AID//w==");  // 00 80 ff ff
  EXPECT_EQ(piece["cells"][0]["ink"], 1);
  EXPECT_EQ(piece["points"][0]["x"]["float32"], "AACAPw==");  // 1.0f
  EXPECT_EQ(piece["y"]["high"], 3);
}

}  // namespace
}  // namespace poem
