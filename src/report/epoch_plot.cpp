#include "report/epoch_plot.h"

#include <algorithm>
#include <cmath>

namespace poem {

using nlohmann::json;

void add_epoch_plot(json& pieces, const std::string& title, const json& y_axis,
                    const std::vector<EpochSeries>& series) {
  json shown = json::array();
  for (size_t i = 0; i < series.size(); ++i) {
    const auto& [label, epochs, values] = series[i];
    if (std::none_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); })) continue;
    shown.push_back({{"label", label}, {"x", epochs}, {"y", values}, {"ink", 1 + i % 7}, {"dash", i}});
  }
  if (shown.empty()) return;
  json piece = {{"kind", "lines"}, {"title", title}, {"y", y_axis}, {"series", shown}};
  piece["x"] = {{"label", "epoch"}, {"whole", true}};
  piece["legend"] = series.size() > 1;  // even if only one has figures: the legend says which
  pieces.push_back(std::move(piece));
}

json share_axis(const std::string& label) { return {{"label", label}, {"percent", true}}; }

json boundary_axis() { return {{"label", "mean −|wᵀφ|"}, {"high", 0}}; }

}  // namespace poem
