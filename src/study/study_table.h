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

// A group a setting; the best of each column and setting marked. The leading columns name the setting, where
// there are several, and the method.
struct StudyTable : TextTable {
  std::string title, note;  // the note tells seeds, sets and counts
};

StudyTable make_table(const Study& study, const std::vector<CellResult>& results);

std::string to_markdown(const StudyTable& table);
std::string to_latex(const StudyTable& table);  // booktabs
std::string to_text(const StudyTable& table, const Terminal& where);

}  // namespace poem
