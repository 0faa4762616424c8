// The report of a run as one page: verdict, figures, scores with a movable threshold, training, mining,
// pictures, config. See docs/report.md.
//
//   write_report("runs/demo/poem/report.html", run_report(read_run("runs/demo/poem")), false);
#pragma once
#include <string>

#include "report/run_data.h"

namespace poem {

std::string run_report(const RunData& run);

// One or two sentences about how well the run did.
std::string verdict(const RunData& run);

// The page that every run writes: FOLDER/report.html.
std::string report_path(const std::string& folder);
void write_run_report(const std::string& folder);

// Writes a page. Replaces a report of poem; replacing any other file without `force` is an Error.
void write_report(const std::string& path, const std::string& page, bool force);

}  // namespace poem
