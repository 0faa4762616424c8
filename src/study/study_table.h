// The table of a study: methods down, figures across, mean ± deviation over seeds, the paper's beside ours.
//
//   const StudyTable table = make_table(study, results);
//   fmt::print("{}", to_text(table, terminal(STDOUT_FILENO)));
#pragma once
#include <string>
#include <vector>

#include "core/text_table.h"
#include "study/study_results.h"

namespace poem {

// A group a setting; the best of each column and setting marked, among rows with all seeds. The leading
// columns name the setting, where there are several, and the method.
struct StudyTable : TextTable {
  std::string title, note;  // the note tells seeds, sets, counts and what is missing
};

// A figure of fewer seeds than the study has is followed by (2/3); a row without any says failed or missing.
StudyTable make_table(const Study& study, const StudyResults& results);

std::string to_markdown(const StudyTable& table);
std::string to_latex(const StudyTable& table);  // booktabs
std::string to_text(const StudyTable& table, const Terminal& where);

}  // namespace poem
