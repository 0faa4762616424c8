// Pieces of HTML as text. Names of classes, sets and files may hold anything: what goes into a page goes
// through here.
//
//   html = "<p>" + escape_html(name) + "</p>" + html_table({"Figures", {{"set", true}, {"FPR95"}}, rows});
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace poem {

// Safe as text and inside a quoted attribute. Bytes that are not UTF-8 and control characters become U+FFFD.
std::string escape_html(const std::string& text);

struct Column {
  std::string title;
  bool text = false;  // words stand on the left, figures on the right
};

struct Table {
  std::string caption;
  std::vector<Column> columns;                 // the first holds the names of the rows
  std::vector<std::vector<std::string>> rows;  // plain text, as many cells as there are columns
};

// A table that scrolls sideways where it is too wide; its columns sort when their titles are pressed.
std::string html_table(const Table& table);

// A paragraph in one of the styles of report.css: verdict, quiet or none.
std::string html_paragraph(const std::string& text, const std::string& style = "");

// A box of remarks that a reader should not miss; nothing where there are none.
std::string html_notes(const std::vector<std::string>& notes);

// Names and what belongs to them.
std::string html_list(const std::vector<std::pair<std::string, std::string>>& entries);

}  // namespace poem
