// Pictures as SVG text: panels in rows with axes, ticks, heat maps, lines, points and one legend. A file is
// self-contained (no font, script or image from elsewhere), follows the reader's light or dark setting and
// has a description for screen readers.
//
//   Figure figure{"Loss", "Training loss by epoch", 1, {}};
//   Panel panel{"", {"epoch", 1, 30}, {"loss", 1e-3, 1, true}};
//   panel.lines.push_back({epochs, losses, Ink::kBlue, Dash::kSolid, "POEM"});
//   figure.panels.push_back(panel);
//   write_file("loss.svg", to_svg(figure));
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace poem {

enum class Ink { kText, kBlue, kOrange, kGreen, kRed };  // each has a light and a dark shade
enum class Dash { kSolid, kDashed, kDotted };

struct Axis {
  std::string label;
  double low = 0, high = 1;
  bool log = false;  // then 0 < low
};

// Values that are not finite, or not positive on a logarithmic axis, leave a gap.
struct Line {
  std::vector<double> x, y;
  Ink ink = Ink::kText;
  Dash dash = Dash::kSolid;
  std::string label;  // equal labels share an entry of the legend; empty: no entry
};

struct Points {
  std::vector<double> x, y;
  Ink ink = Ink::kText;
  double radius = 1.5;
  std::string label;
};

// A grid of cells that fills the panel, first row at the bottom. Each value in 0 … 1 is the strength of the
// ink.
struct HeatMap {
  int64_t rows = 0, columns = 0;
  std::vector<double> values;
  Ink ink = Ink::kText;
  std::string label;
  bool scale = false;  // the legend shows a scale from no ink to full ink instead of one swatch
};

struct Panel {
  std::string title;
  Axis x, y;
  std::vector<HeatMap> heat_maps;  // drawn first
  std::vector<Line> lines;
  std::vector<Points> points;  // drawn last
};

struct Figure {
  std::string title;
  std::string description;  // for screen readers
  int64_t columns = 1;      // panels per row
  std::vector<Panel> panels;
  double panel_width = 240, panel_height = 200;  // of the area inside the axes
};

std::string to_svg(const Figure& figure);

// About five round numbers inside [low, high]; on a logarithmic axis whole decades (at most about six).
std::vector<double> axis_ticks(const Axis& axis);

}  // namespace poem
