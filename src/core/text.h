// Small helpers on names: the nearest known one and lists of them for error messages, fields of CSV files.
#pragma once
#include <string>
#include <vector>

namespace poem {

// The member of `known` with the smallest edit distance to `name`; empty if there is none.
std::string nearest(const std::string& name, const std::vector<std::string>& known);

// "a, b and c".
std::string listed(const std::vector<std::string>& names);

// A field of a CSV line: quoted where it holds a comma, a quote or a line feed.
std::string csv_field(const std::string& text);

}  // namespace poem
