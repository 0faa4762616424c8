// Panels of pictures (report/plot.h) inside a page (report/page.h). The script panel.js draws them, so that
// they grow with the window and can be played as frames.
//
//   Page page("Toy", "", {"panel.js"});
//   page.draw(panel_piece(panel, true));
#pragma once
#include <nlohmann/json.hpp>

#include "report/plot.h"

namespace poem {

// A piece {"kind": "panel"}. Cells of heat maps are rounded to 255 strengths. With `square` both axes have
// the same length.
nlohmann::json panel_piece(const Panel& panel, bool square);

// Where a field crosses a level, as pieces of line with gaps between them. The field is given at the centres
// of rows × columns cells that fill the axes, first row at the bottom. It is assumed to be linear between
// neighbouring centres.
Line contour(const std::vector<double>& field, int64_t rows, int64_t columns, double level, const Axis& x,
             const Axis& y);

}  // namespace poem
