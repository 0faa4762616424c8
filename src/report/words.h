// Figures as text for a page.
//
//   percent_text(0.1234)     // "12.3 %", with a space at which no line breaks
//   in_percent(0.1234)       // "12.34", for tables
//   counted(1, "epoch")      // "1 epoch"
#pragma once
#include <cstddef>
#include <string>

namespace poem {

std::string percent_text(double share, int digits = 1);  // a dash if it is not a number
std::string in_percent(double share);                    // the same
std::string counted(size_t count, const std::string& what);

// Keeps a figure and its unit on one line.
std::string with_percent_sign(const std::string& figure);

}  // namespace poem
