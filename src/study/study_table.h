// The table of a study: methods down, figures across, mean ± deviation over seeds, the paper's beside ours.
//
//   const StudyTable table = make_table(study, results);
//   fmt::print("{}", to_text(table, is_terminal));
#pragma once
#include <string>
#include <vector>

#include "study/study_results.h"

namespace poem {

struct StudyTable {
  struct Entry {
    std::string text;
    bool best = false;  // of its column and setting, among rows with all seeds
  };
  struct Row {
    bool first;  // of its setting
    std::vector<Entry> entries;
  };
  std::string title, note;  // the note tells seeds, sets, counts and what is missing
  std::vector<std::string> header;
  size_t names;  // leading columns that hold names: the setting where there are several, and the method
  std::vector<Row> rows;
};

// A figure of fewer seeds than the study has is followed by (2/3); a row without any says failed or missing.
StudyTable make_table(const Study& study, const StudyResults& results);

std::string to_markdown(const StudyTable& table);
std::string to_latex(const StudyTable& table);                // booktabs
std::string to_text(const StudyTable& table, bool emphasis);  // aligned; the best in bold on a terminal

}  // namespace poem
