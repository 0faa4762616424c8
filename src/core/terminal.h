// What a terminal can show, decided in one place, and lines that fit into it.
//
//   const Terminal out = terminal(STDOUT_FILENO);
//   fmt::print("{}", to_text(table, out));  // core/text_table.h
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace poem {

// What a pipe or a file gets: text without escape sequences, ASCII where it is ours.
struct Terminal {
  bool live = false;    // it moves its cursor where it is told: a terminal other than TERM=dumb
  bool utf8 = false;    // live, and the locale says UTF-8
  bool colour = false;  // live, and NO_COLOR is not set
  size_t columns = 0;   // as wide as it is now; 0: without end
};
Terminal terminal(int descriptor);

enum class Style { kBold = 1, kRed = 31, kYellow = 33, kCyan = 36 };
std::string styled(const std::string& text, Style style, const Terminal& where);  // unchanged without colours

constexpr char kWipe[] = "\r\033[J";  // clears from the beginning of the line on

// The columns that `text` takes: its code points, escape sequences left out.
size_t display_width(std::string_view text);

// ± – ↓ ↑ as ASCII.
std::string to_ascii(std::string text);

// Parts of a line, side by side. Where they do not fit into `columns`, those of the highest rank are left out
// first; the last one is cut.
struct LinePart {
  std::string text;
  int rank;
};
std::string fit_line(std::vector<LinePart> parts, size_t columns);

}  // namespace poem
