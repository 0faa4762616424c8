// The table of a study: one row per method, mean ± deviation over seeds, the paper's figures beside ours.
//
//   const StudyTable table = make_table(study, results);
//   fmt::print("{}", to_text(table, terminal(STDOUT_FILENO)));
#pragma once
#include <string>
#include <vector>

#include "core/text_table.h"
#include "study/study_results.h"

namespace poem {

// One group of rows per setting. The best figure of each column and setting is marked; only rows with all
// seeds count. The leading columns name the method and, if there are several, the setting.
struct StudyTable : TextTable {
  std::string title, note;  // the note names seeds, sets, counts and what is missing
};

// A figure from 2 of 3 seeds is followed by (2/3). A row without any finished seed says failed or missing.
StudyTable make_table(const Study& study, const StudyResults& results);

std::string to_markdown(const StudyTable& table);
std::string to_latex(const StudyTable& table);  // booktabs
std::string to_text(const StudyTable& table, const Terminal& where);

}  // namespace poem
