// What a terminal can show, decided in one place, and lines that fit into it.
//
//   const Terminal out = terminal(STDOUT_FILENO);
//   fmt::print("{}", to_text(table, out));  // core/text_table.h
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace poem {

// The defaults are those of a pipe or a file: text without escape sequences, and our own text in ASCII.
struct Terminal {
  bool live = false;    // understands cursor movements: a terminal other than TERM=dumb
  bool utf8 = false;    // live, and the locale says UTF-8
  bool colour = false;  // live, and NO_COLOR is not set
  size_t columns = 0;   // current width; 0: unlimited
};
Terminal terminal(int descriptor);

enum class Style { kBold = 1, kRed = 31, kYellow = 33, kCyan = 36 };
std::string styled(const std::string& text, Style style, const Terminal& where);  // unchanged without colours

constexpr char kWipe[] = "\r\033[J";  // clears from the beginning of the line to the end of the screen

// The columns that `text` takes: its code points without escape sequences.
size_t display_width(std::string_view text);

// ± – ↓ ↑ as ASCII.
std::string to_ascii(std::string text);

// Parts of a line, side by side. If they do not fit into `columns`, the parts of the highest rank are left
// out first; the last remaining one is cut.
struct LinePart {
  std::string text;
  int rank;
};
std::string fit_line(std::vector<LinePart> parts, size_t columns);

}  // namespace poem
