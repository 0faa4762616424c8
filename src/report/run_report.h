// The report of a run as one page: verdict, figures, scores with a threshold to move, training, mining,
// pictures, config. docs/report.md.
//
//   write_report("runs/demo/poem/report.html", run_report(read_run("runs/demo/poem")), false);
#pragma once
#include <string>

#include "report/run_data.h"

namespace poem {

std::string run_report(const RunData& run);

// One sentence or two on how the run did, from its figures.
std::string verdict(const RunData& run);

// The page that every run leaves: FOLDER/report.html.
std::string report_path(const std::string& folder);
void write_run_report(const std::string& folder);

// Writes a page. A report of poem's is replaced; anything else only with `force`, otherwise it is an Error.
void write_report(const std::string& path, const std::string& page, bool force);

}  // namespace poem
