// The report of a study as one page: the table, curves over epochs with bands, differences over seeds,
// training time against FPR95. docs/report.md.
//
//   write_report("table1.html", study_report_of("runs/table1"), false);
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "study/study_results.h"

namespace poem {

// A study that is not finished, or partly failed, reports what there is and says what is missing. `file` is
// the study's own, as text; it may be empty.
std::string study_report(const StudyRecord& record, const std::string& file = "");

bool is_study(const std::string& folder);

// What results.json and study.yaml of a study's folder tell. One that has no results yet, or damaged ones, is
// an Error.
std::string study_report_of(const std::string& folder);
void write_study_report(const std::string& folder);  // to FOLDER/report.html

// FPR95 in percent over the epochs that were evaluated: a series a method with its mean over seeds, and ± one
// standard deviation, as far as FPR95 goes, as `low` and `high` where there are two seeds at least. Empty
// without curves.
nlohmann::json curve_series(const StudyRecord& record, size_t setting);

}  // namespace poem
