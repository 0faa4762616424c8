// A plot of figures over epochs for a page.
//
//   add_epoch_plot(pieces, "Loss", {{"label", "loss"}}, {{"POEM", run.epoch_numbers(),
//   run.by_epoch("/loss")}});
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace poem {

struct EpochSeries {
  std::string label;
  std::vector<double> epochs, values;  // NaN if an epoch has no value
};

// Appends a piece of kind "lines" (docs/report.md). Leaves out series without figures, and the whole plot if
// no series is left.
void add_epoch_plot(nlohmann::json& pieces, const std::string& title, const nlohmann::json& y_axis,
                    const std::vector<EpochSeries>& series);

nlohmann::json share_axis(const std::string& label);  // an axis of shares of 1, shown in percent
nlohmann::json boundary_axis();                       // an axis of mean boundary scores, as in the log

}  // namespace poem
