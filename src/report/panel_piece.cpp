#include "report/panel_piece.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/base64.h"
#include "report/page.h"

namespace poem {
namespace {

using nlohmann::json;

constexpr const char* kMarks[] = {"dot", "cross"};  // so that points differ in more than colour

// Maps the inks of plot.h to those of report.css.
int ink_number(Ink ink) {
  switch (ink) {
    case Ink::kBlue:
      return 1;
    case Ink::kOrange:
      return 2;
    case Ink::kGreen:
      return 3;
    case Ink::kRed:
      return 4;
    case Ink::kText:
      break;
  }
  return 0;
}

json numbers(const std::vector<double>& values) { return packed({values.begin(), values.end()}); }

json axis_json(const Axis& axis) {
  return {{"label", axis.label}, {"low", axis.low}, {"high", axis.high}, {"log", axis.log}};
}

json cells_json(const HeatMap& map) {
  std::string strengths;
  for (const double value : map.values) {
    strengths += static_cast<char>(std::lround(255 * std::clamp(value, 0., 1.)));
  }
  return {{"label", map.label},     {"ink", ink_number(map.ink)}, {"rows", map.rows},
          {"columns", map.columns}, {"scale", map.scale},         {"strengths", base64(strengths)}};
}

struct Crossing {
  double x, y;
};

}  // namespace

json panel_piece(const Panel& panel, bool square) {
  json piece = {{"kind", "panel"},         {"title", panel.title},   {"x", axis_json(panel.x)},
                {"y", axis_json(panel.y)}, {"square", square},       {"cells", json::array()},
                {"lines", json::array()},  {"points", json::array()}};
  for (const HeatMap& map : panel.heat_maps) piece["cells"].push_back(cells_json(map));
  for (const Line& line : panel.lines) {
    piece["lines"].push_back({{"label", line.label},
                              {"ink", ink_number(line.ink)},
                              {"dash", static_cast<int>(line.dash)},
                              {"x", numbers(line.x)},
                              {"y", numbers(line.y)}});
  }
  for (const Points& points : panel.points) {
    piece["points"].push_back({{"label", points.label},
                               {"ink", ink_number(points.ink)},
                               {"mark", kMarks[points.ink == Ink::kOrange]},
                               {"x", numbers(points.x)},
                               {"y", numbers(points.y)}});
  }
  return piece;
}

// Marching squares: no, one or two lines cross a square of four neighbouring centres.
Line contour(const std::vector<double>& field, int64_t rows, int64_t columns, double level, const Axis& x,
             const Axis& y) {
  Line line;
  const auto place = [](const Axis& axis, int64_t cells, double i) {
    return axis.low + (axis.high - axis.low) * (i + 0.5) / static_cast<double>(cells);
  };
  const auto add = [&](double column, double row) {
    line.x.push_back(place(x, columns, column));
    line.y.push_back(place(y, rows, row));
  };
  constexpr std::array<std::array<int, 2>, 4> kCorners = {
      {{0, 0}, {1, 0}, {1, 1}, {0, 1}}};  // around the square
  for (int64_t row = 0; row + 1 < rows; ++row) {
    for (int64_t column = 0; column + 1 < columns; ++column) {
      std::vector<Crossing> crossings;
      for (size_t i = 0; i < 4; ++i) {
        const auto [ax, ay] = kCorners[i];
        const auto [bx, by] = kCorners[(i + 1) % 4];
        const double a = field[(row + ay) * columns + column + ax] - level,
                     b = field[(row + by) * columns + column + bx] - level;
        if ((a >= 0) == (b >= 0)) continue;
        const double t = a / (a - b);
        crossings.push_back({static_cast<double>(column) + ax + t * (bx - ax),
                             static_cast<double>(row) + ay + t * (by - ay)});
      }
      for (size_t i = 0; i + 1 < crossings.size(); i += 2) {
        add(crossings[i].x, crossings[i].y);
        add(crossings[i + 1].x, crossings[i + 1].y);
        line.x.push_back(std::numeric_limits<double>::quiet_NaN());  // a gap
        line.y.push_back(std::numeric_limits<double>::quiet_NaN());
      }
    }
  }
  return line;
}

}  // namespace poem
