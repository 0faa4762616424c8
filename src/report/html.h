// Pieces of HTML as text. Names of classes, sets and files may contain any characters, so all text of a page
// passes through these functions.
//
//   html = "<p>" + escape_html(name) + "</p>" + html_table({"Figures", {{"set", true}, {"FPR95"}}, rows});
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace poem {

// The result is safe as text and in a quoted attribute. Invalid UTF-8 and control characters become U+FFFD.
std::string escape_html(const std::string& text);

struct Column {
  std::string title;
  bool text = false;  // words are flush left, figures flush right
};

struct Table {
  std::string caption;
  std::vector<Column> columns;                         // the first one has the names of the rows
  std::vector<std::vector<std::string>> rows;          // plain text, as many cells as there are columns
  std::vector<std::pair<size_t, size_t>> strong = {};  // (row, column) of cells in bold
};

// A table that scrolls sideways if it is too wide. A click on a title sorts by that column.
std::string html_table(const Table& table);

// A paragraph in one of the styles of report.css: verdict, quiet or none.
std::string html_paragraph(const std::string& text, const std::string& style = "");

// A box of remarks that a reader should not miss; empty without remarks.
std::string html_notes(const std::vector<std::string>& notes);

// A list of names and their descriptions.
std::string html_list(const std::vector<std::pair<std::string, std::string>>& entries);

}  // namespace poem
