#include "core/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "core/text.h"

namespace poem {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The first variable that is set decides, as in setlocale(). setlocale() itself is not used, because the
// locale need not be installed.
bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value = variable(name);
    if (value.empty()) continue;
    for (char& c : value) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

size_t columns_of(int descriptor) {
  constexpr size_t kUnknown = 80;  // some terminals, and those of the tests, report 0
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUnknown;
}

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }  // a code point of UTF-8

std::string cut(const std::string& text, size_t columns) {
  size_t end = 0;
  for (size_t width = 0; end < text.size(); ++end) {
    if (!continues(text[end]) && ++width > columns) break;
  }
  return text.substr(0, end);
}

}  // namespace

Terminal terminal(int descriptor) {
  const std::string name = variable("TERM");
  if (::isatty(descriptor) == 0 || name.empty() || name == "dumb") return {};
  return {true, locale_is_utf8(), variable("NO_COLOR").empty(), columns_of(descriptor)};
}

std::string styled(const std::string& text, Style style, const Terminal& where) {
  return where.colour ? fmt::format("\033[{}m{}\033[0m", static_cast<int>(style), text) : text;
}

size_t display_width(std::string_view text) {
  size_t width = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033') {
      i = std::min(text.find('m', i), text.size() - 1);  // styled() writes no other sequences
    } else if (!continues(text[i])) {
      ++width;
    }
  }
  return width;
}

std::string to_ascii(std::string text) {
  for (const auto& [from, to] :
       {std::pair<std::string, std::string>{"±", "+-"}, {"–", "-"}, {"↓", "v"}, {"↑", "^"}}) {
    text = replaced(std::move(text), from, to);
  }
  return text;
}

std::string fit_line(std::vector<LinePart> parts, size_t columns) {
  for (;;) {
    std::string line;
    for (const LinePart& part : parts) line += (line.empty() || part.text.empty() ? "" : "  ") + part.text;
    if (display_width(line) <= columns) return line;
    if (parts.size() <= 1) return cut(line, columns);
    parts.erase(std::max_element(parts.begin(), parts.end(),
                                 [](const LinePart& a, const LinePart& b) { return a.rank < b.rank; }));
  }
}

}  // namespace poem
