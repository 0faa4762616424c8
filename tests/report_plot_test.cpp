#include "report/plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace poem {
namespace {

size_t count(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

Panel empty_panel() { return {"panel", {"x", 0, 10}, {"y", 0, 10}, {}, {}, {}}; }

std::string draw(const Panel& panel) { return to_svg({"title", "words", 1, {panel}, 100, 100}); }

TEST(Plot, TextIsEscapedEverywhere) {
  Panel panel = empty_panel();
  panel.title = panel.x.label = panel.y.label = "<a&\"b\">";
  panel.lines.push_back({{0, 1}, {0, 1}, Ink::kBlue, Dash::kSolid, "<a&\"b\">"});
  const std::string svg = to_svg({"<a&\"b\">", "<a&\"b\">", 1, {panel}});
  EXPECT_EQ(svg.find("<a&"), std::string::npos);
  EXPECT_EQ(count(svg, "&lt;a&amp;&quot;b&quot;&gt;"), 7u);  // title twice, description, three labels, legend
}

TEST(Plot, StandsForItselfAndTellsWhatItShows) {
  const std::string svg = draw(empty_panel());
  for (const char* word : {"viewBox=", "<title id=\"title\">title</title>", "<desc id=\"desc\">words</desc>",
                           "role=\"img\"", "prefers-color-scheme:dark"})
    EXPECT_NE(svg.find(word), std::string::npos) << word;
  EXPECT_EQ(count(svg, "http"), 1u);  // the namespace
  EXPECT_EQ(svg.find("<script"), std::string::npos);
}

TEST(Plot, EveryElementIsClosed) {
  Panel panel = empty_panel();
  panel.heat_maps.push_back({1, 2, {0, 1}, Ink::kGreen, "map", true});
  panel.lines.push_back({{0, 1}, {0, 1}, Ink::kBlue, Dash::kDotted, "line"});
  panel.points.push_back({{5}, {5}, Ink::kRed, 2, "points"});
  const std::string svg = draw(panel);
  EXPECT_EQ(count(svg, "<g "), count(svg, "</g>"));
  EXPECT_EQ(count(svg, "<text "), count(svg, "</text>"));
  EXPECT_EQ(count(svg, "<path "), count(svg, "\"/>") - count(svg, "<rect ") - count(svg, "<circle "));
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
}

TEST(Plot, PlacesLinesAndPointsByTheAxes) {
  Panel panel = empty_panel();
  panel.lines.push_back({{0, 5, 10}, {0, 10, 5}, Ink::kBlue, Dash::kSolid, ""});
  panel.points.push_back({{2.5}, {2.5}, Ink::kRed, 2, ""});
  const std::string svg = draw(panel);
  EXPECT_NE(svg.find("d=\"M0 100L50 0L100 50\""), std::string::npos) << svg;
  EXPECT_NE(svg.find("d=\"M25 75h0\""), std::string::npos);
}

TEST(Plot, PlacesByTheLogarithm) {
  Panel panel{"", {"x", 0.01, 100, true}, {"y", 1, 100, true}, {}, {}, {}};
  panel.lines.push_back({{0.01, 1, 100}, {1, 10, 100}, Ink::kBlue, Dash::kSolid, ""});
  EXPECT_NE(draw(panel).find("d=\"M0 100L50 50L100 0\""), std::string::npos);
}

TEST(Plot, LeavesGapsWhereThereIsNoValue) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  Panel panel = empty_panel();
  panel.lines.push_back({{0, 1, 2, 3, 4}, {0, nan, 10, infinity, 0}, Ink::kBlue, Dash::kSolid, ""});
  panel.points.push_back({{1, 2, 11, 3}, {nan, -1, 5, 5}, Ink::kRed, 2, ""});
  std::string svg = draw(panel);
  EXPECT_NE(svg.find("d=\"M0 100M20 0M40 100\""), std::string::npos) << svg;
  EXPECT_EQ(count(svg, "h0"), 1u);  // outside of the axes there are no points
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf "), std::string::npos);
  panel = Panel{"", {"x", 0, 10}, {"y", 0.1, 10, true}, {}, {}, {}};
  panel.lines.push_back({{0, 5, 10}, {1, 0, 10}, Ink::kBlue, Dash::kSolid, ""});
  EXPECT_NE(draw(panel).find("d=\"M0 50M100 0\""), std::string::npos);
}

TEST(Plot, HeatMapMergesRunsAndStartsAtTheBottom) {
  Panel panel = empty_panel();
  panel.heat_maps.push_back({2, 2, {1, 1, 0, 2}, Ink::kGreen, "", false});  // 2 is clamped
  EXPECT_NE(draw(panel).find("d=\"M0 50h100v50h-100zM50 0h50v50h-50z\""), std::string::npos) << draw(panel);
}

TEST(Plot, LegendNamesEachLabelOnce) {
  Figure figure{"t", "d", 2, {empty_panel(), empty_panel()}};
  for (Panel& panel : figure.panels) panel.points.push_back({{1}, {1}, Ink::kRed, 2, "outliers"});
  EXPECT_EQ(count(to_svg(figure), ">outliers<"), 1u);
}

TEST(Plot, TicksAreRoundAndInside) {
  EXPECT_EQ(axis_ticks({"", 0, 10}), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(axis_ticks({"", -6, 6}), (std::vector<double>{-6, -4, -2, 0, 2, 4, 6}));
  EXPECT_EQ(axis_ticks({"", 0.01, 100, true}).size(), 5u);
  for (const Axis& axis : {Axis{"", -0.37, 12.3}, Axis{"", 1e-9, 3e-9}, Axis{"", -5e6, 1},
                           Axis{"", 0.009, 330, true}, Axis{"", 1e-200, 1, true}}) {
    const auto ticks = axis_ticks(axis);
    EXPECT_GE(ticks.size(), 3u);
    EXPECT_LE(ticks.size(), 8u);
    const double slack = 1e-9 * (axis.log ? axis.low : axis.high - axis.low);
    for (double tick : ticks) {
      EXPECT_GE(tick, axis.low - slack);
      EXPECT_LE(tick, axis.high + slack);
    }
  }
}

TEST(Plot, FigureWithoutPanelsIsStillAPicture) {
  EXPECT_NE(to_svg({"t", "d", 3, {}}).find("viewBox"), std::string::npos);
}

}  // namespace
}  // namespace poem
