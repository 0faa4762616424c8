// A table as every command prints it: in a box on a UTF-8 terminal that is wide enough, and as aligned
// columns elsewhere.
//
//   TextTable table{{"%", "FPR95", "AUROC"}};
//   table.rows.push_back({{{"digits"}, {"12.30"}, {"97.10"}}});
//   fmt::print("{}", to_text(table, terminal(STDOUT_FILENO)));
#pragma once
#include <string>
#include <vector>

#include "core/terminal.h"

namespace poem {

struct TextTable {
  struct Entry {
    std::string text;
    bool best = false;  // bold where there are colours
  };
  struct Row {
    std::vector<Entry> entries;  // as many as the header has
    bool first = false;          // of a group: separated from the row above
  };
  std::vector<std::string> header;
  size_t names = 1;  // leading columns with names, flush left; the others have figures, flush right
  std::vector<Row> rows;
};

std::string to_text(const TextTable& table, const Terminal& where);

// A file's name may contain anything, also what a terminal takes for a command: such characters become '?'.
std::string printable(std::string text);

}  // namespace poem
