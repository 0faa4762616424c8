#include "report/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "report/html.h"

namespace poem {
namespace {

constexpr double kLeft = 62, kTop = 30, kRight = 14, kBottom = 46;  // room around a panel for its labels
constexpr double kHeader = 30, kLegendRow = 18;
constexpr double kCharacter = 6.3;  // a generous width per letter, because there is no font to measure

// Each ink has a shade for light and one for dark backgrounds. The body refers to it as currentColor.
constexpr const char* kStyle =
    "<style>\n"
    "text{fill:currentColor}\n"
    ".paper{fill:#fff}.i0{color:#24292f}.grid{stroke:#24292f;stroke-opacity:.12}\n"
    ".i1{color:#0b63b5}.i2{color:#c65a00}.i3{color:#1a7f37}.i4{color:#b3123b}\n"
    "@media(prefers-color-scheme:dark){\n"
    ".paper{fill:#14181d}.i0{color:#e6e9ed}.grid{stroke:#e6e9ed}\n"
    ".i1{color:#58a6ff}.i2{color:#ff9d3f}.i3{color:#4ccb68}.i4{color:#ff6b8a}}\n"
    "</style>\n";

int ink_class(Ink ink) { return static_cast<int>(ink); }

const char* dash_pattern(Dash dash) {
  switch (dash) {
    case Dash::kDashed:
      return " stroke-dasharray=\"6 3\"";
    case Dash::kDotted:
      return " stroke-dasharray=\"1.5 3\"";
    default:
      return "";
  }
}

std::string text(double x, double y, const char* anchor, const std::string& content,
                 const std::string& attributes = "") {
  return fmt::format("<text x=\"{:.4g}\" y=\"{:.4g}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor,
                     attributes, escape_html(content));
}

// Maps the values of an axis to `length` pixels.
class Scale {
 public:
  Scale(const Axis& axis, double length) : axis_(axis), length_(length) {}
  double operator()(double value) const {
    return length_ * (unit(value) - unit(axis_.low)) / (unit(axis_.high) - unit(axis_.low));
  }
  bool shows(double value) const {
    return std::isfinite(value) && (!axis_.log || value > 0) && value >= axis_.low && value <= axis_.high;
  }
  bool defined(double value) const { return std::isfinite(value) && (!axis_.log || value > 0); }

 private:
  double unit(double value) const { return axis_.log ? std::log10(value) : value; }
  const Axis& axis_;
  double length_;
};

class PanelWriter {
 public:
  PanelWriter(const Panel& panel, double width, double height)
      : panel_(panel), width_(width), height_(height), x_(panel.x, width), y_(panel.y, height) {}

  // In coordinates of the panel: the origin is the upper left corner inside the axes.
  std::string operator()() {
    for (const HeatMap& map : panel_.heat_maps) draw(map);
    draw_axes();
    for (const Line& line : panel_.lines) draw(line);
    for (const Points& points : panel_.points) draw(points);
    return svg_;
  }

 private:
  double down(double value) const { return height_ - y_(value); }

  // Neighbours of equal strength in a row become one rectangle, and all rectangles of a strength one path.
  void draw(const HeatMap& map) {
    constexpr int kLevels = 16;
    std::array<std::string, kLevels + 1> paths;
    const double cell_width = width_ / static_cast<double>(map.columns),
                 cell_height = height_ / static_cast<double>(map.rows);
    const auto level = [&](int64_t row, int64_t column) {
      return static_cast<int>(
          std::lround(kLevels * std::clamp(map.values[row * map.columns + column], 0.0, 1.0)));
    };
    for (int64_t row = 0; row < map.rows; ++row) {
      for (int64_t begin = 0, end; begin < map.columns; begin = end) {
        for (end = begin + 1; end < map.columns && level(row, end) == level(row, begin);) ++end;
        const auto run = static_cast<double>(end - begin);
        paths[level(row, begin)] +=
            fmt::format("M{:.4g} {:.4g}h{:.4g}v{:.4g}h{:.4g}z", cell_width * static_cast<double>(begin),
                        height_ - cell_height * static_cast<double>(row + 1), cell_width * run, cell_height,
                        -cell_width * run);
      }
    }
    for (int i = 1; i <= kLevels; ++i) {  // level 0 has no ink and needs no path
      if (paths[i].empty()) continue;
      svg_ += fmt::format(
          "<path class=\"i{}\" fill=\"currentColor\" fill-opacity=\"{:.3g}\" shape-rendering=\"crispEdges\" "
          "d=\"{}\"/>\n",
          ink_class(map.ink), 0.8 * i / kLevels, paths[i]);
    }
  }

  void draw_axes() {
    for (double tick : axis_ticks(panel_.x)) {
      svg_ += fmt::format("<path class=\"grid\" d=\"M{:.4g} 0V{:.4g}\"/>\n", x_(tick), height_);
      svg_ += text(x_(tick), height_ + 15, "middle", fmt::format("{:g}", tick));
    }
    for (double tick : axis_ticks(panel_.y)) {
      svg_ += fmt::format("<path class=\"grid\" d=\"M0 {:.4g}H{:.4g}\"/>\n", down(tick), width_);
      svg_ += text(-6, down(tick) + 4, "end", fmt::format("{:g}", tick));
    }
    svg_ += fmt::format("<path stroke=\"currentColor\" fill=\"none\" d=\"M0 0V{:.4g}H{:.4g}\"/>\n", height_,
                        width_);
    svg_ += text(width_ / 2, -9, "middle", panel_.title, " font-weight=\"bold\"");
    svg_ += text(width_ / 2, height_ + 33, "middle", panel_.x.label);
    svg_ += text(0, 0, "middle", panel_.y.label,
                 fmt::format(" transform=\"translate(-48 {:.4g}) rotate(-90)\"", height_ / 2));
  }

  void draw(const Line& line) {
    std::string path;
    bool pen_down = false;
    for (size_t i = 0; i < line.x.size(); ++i) {
      const bool drawn = x_.defined(line.x[i]) && y_.defined(line.y[i]);
      // A point far outside the panel only matters for the direction in which the line leaves it.
      if (drawn)
        path += fmt::format("{}{:.5g} {:.5g}", pen_down ? 'L' : 'M', x_(line.x[i]),
                            std::clamp(down(line.y[i]), -9 * height_, 9 * height_));
      pen_down = drawn;
    }
    svg_ += fmt::format(
        "<path class=\"i{}\" clip-path=\"url(#inside)\" fill=\"none\" stroke=\"currentColor\" "
        "stroke-width=\"1.6\"{} d=\"{}\"/>\n",
        ink_class(line.ink), dash_pattern(line.dash), path);
  }

  // A stroke of zero length with round ends is a dot, and the shortest way to write many dots.
  void draw(const Points& points) {
    std::string path;
    for (size_t i = 0; i < points.x.size(); ++i) {
      if (!x_.shows(points.x[i]) || !y_.shows(points.y[i])) continue;
      path += fmt::format("M{:.4g} {:.4g}h0", x_(points.x[i]), down(points.y[i]));
    }
    svg_ += fmt::format(
        "<path class=\"i{}\" stroke=\"currentColor\" stroke-linecap=\"round\" stroke-width=\"{:.4g}\" "
        "d=\"{}\"/>\n",
        ink_class(points.ink), 2 * points.radius, path);
  }

  const Panel& panel_;
  double width_, height_;
  Scale x_, y_;
  std::string svg_;
};

// The labels of all panels, each once, in rows no wider than the figure.
class Legend {
 public:
  explicit Legend(double width) : width_(width) {}

  void add(const Panel& panel) {
    for (const HeatMap& map : panel.heat_maps) {
      constexpr int kSteps = 5;
      std::string swatch;
      for (int i = 0; i < (map.scale ? kSteps : 1); ++i) {
        const double strength =
            map.scale ? i / (kSteps - 1.0) : *std::max_element(map.values.begin(), map.values.end());
        swatch += fmt::format(
            "<rect x=\"{}\" y=\"-9\" width=\"{}\" height=\"10\" fill=\"currentColor\" "
            "fill-opacity=\"{:.3g}\"/>",
            map.scale ? 4 * i : 0, map.scale ? 4 : 20, 0.8 * strength);
      }
      add(map.label, map.ink, swatch);
    }
    for (const Line& line : panel.lines) {
      add(line.label, line.ink,
          fmt::format("<path d=\"M0 -4H20\" stroke=\"currentColor\" stroke-width=\"1.6\"{}/>",
                      dash_pattern(line.dash)));
    }
    for (const Points& points : panel.points) {
      add(points.label, points.ink, "<circle cx=\"10\" cy=\"-4\" r=\"3\" fill=\"currentColor\"/>");
    }
  }

  double height() const { return labels_.empty() ? 0 : kLegendRow * static_cast<double>(row_ + 1); }
  const std::string& svg() const { return svg_; }

 private:
  void add(const std::string& label, Ink ink, const std::string& swatch) {
    if (label.empty() || std::find(labels_.begin(), labels_.end(), label) != labels_.end()) return;
    labels_.push_back(label);
    const double room = 40 + kCharacter * static_cast<double>(label.size());
    if (x_ > 0 && x_ + room > width_) {
      x_ = 0;
      ++row_;
    }
    svg_ += fmt::format("<g class=\"i{}\" transform=\"translate({:.4g} {:.4g})\">{}</g>\n", ink_class(ink),
                        x_, kLegendRow * static_cast<double>(row_), swatch);
    svg_ += text(x_ + 25, kLegendRow * static_cast<double>(row_), "start", label);
    x_ += room;
  }

  double width_, x_ = 0;
  int row_ = 0;
  std::vector<std::string> labels_;
  std::string svg_;
};

std::vector<double> decades(const Axis& axis) {
  const int first = static_cast<int>(std::ceil(std::log10(axis.low) - 1e-9)),
            last = static_cast<int>(std::floor(std::log10(axis.high) + 1e-9));
  const int step = std::max(1, (last - first + 4) / 5);
  std::vector<double> ticks;
  for (int exponent = first; exponent <= last; exponent += step) ticks.push_back(std::pow(10, exponent));
  return ticks;
}

}  // namespace

std::vector<double> axis_ticks(const Axis& axis) {
  if (axis.log) return decades(axis);
  const double rough = (axis.high - axis.low) / 5, power = std::pow(10, std::floor(std::log10(rough)));
  const double step = power * (rough / power < 1.5   ? 1
                               : rough / power < 3.5 ? 2
                               : rough / power < 7.5 ? 5
                                                     : 10);
  std::vector<double> ticks;
  const auto last = std::llround(std::floor(axis.high / step + 1e-9));
  for (auto i = std::llround(std::ceil(axis.low / step - 1e-9)); i <= last; ++i)
    ticks.push_back(static_cast<double>(i) * step);
  return ticks;
}

std::string to_svg(const Figure& figure) {
  const auto count = static_cast<int64_t>(figure.panels.size());
  const int64_t columns = std::max<int64_t>(1, std::min(figure.columns, count)),
                rows = (count + columns - 1) / columns;
  const double step_x = kLeft + figure.panel_width + kRight, step_y = kTop + figure.panel_height + kBottom;
  const double width = step_x * static_cast<double>(columns);
  Legend legend(width - 2 * kRight);
  for (const Panel& panel : figure.panels) legend.add(panel);
  const double legend_top = kHeader + step_y * static_cast<double>(rows) + 14;
  const double height = legend_top + legend.height();

  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.5g} {:.5g}\" "
      "font-family=\"sans-serif\" font-size=\"11\" role=\"img\" "
      "aria-labelledby=\"title desc\">\n<title id=\"title\">{}</title>\n<desc id=\"desc\">{}</desc>\n{}"
      "<clipPath id=\"inside\"><rect width=\"{:.4g}\" height=\"{:.4g}\"/></clipPath>\n"
      "<rect class=\"paper\" width=\"{:.5g}\" height=\"{:.5g}\"/>\n<g class=\"i0\">\n",
      width, height, escape_html(figure.title), escape_html(figure.description), kStyle, figure.panel_width,
      figure.panel_height, width, height);
  svg += text(width / 2, 20, "middle", figure.title, " font-size=\"14\" font-weight=\"bold\"");
  for (int64_t i = 0; i < count; ++i) {
    svg += fmt::format("<g transform=\"translate({:.5g} {:.5g})\">\n{}</g>\n",
                       kLeft + step_x * static_cast<double>(i % columns),
                       kHeader + kTop + step_y * static_cast<double>(i / columns),
                       PanelWriter(figure.panels[i], figure.panel_width, figure.panel_height)());
  }
  return svg + fmt::format("<g transform=\"translate({:.4g} {:.5g})\">\n{}</g>\n</g>\n</svg>\n", kRight,
                           legend_top, legend.svg());
}

}  // namespace poem
