// The report of a study as one page: the table, curves over epochs with bands, differences over seeds, and
// training time against FPR95. See docs/report.md.
//
//   write_report("table1.html", study_report_of("runs/table1"), false);
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "study/study_results.h"

namespace poem {

// The report of a study that is unfinished or partly failed shows what there is and says what is missing.
// `file` is the text of the study's file; it may be empty.
std::string study_report(const StudyRecord& record, const std::string& file = "");

bool is_study(const std::string& folder);

// The report from results.json and study.yaml in a study's folder. An Error if there are no results yet, or
// if they are damaged.
std::string study_report_of(const std::string& folder);
void write_study_report(const std::string& folder);  // to FOLDER/report.html

// FPR95 in percent over the epochs that were evaluated: one series per method with its mean over seeds. With
// two seeds or more, `low` and `high` are the mean ± one standard deviation, within 0 … 100. Empty without
// curves.
nlohmann::json curve_series(const StudyRecord& record, size_t setting);

}  // namespace poem
