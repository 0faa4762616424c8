// Small helpers for text: suggestions and lists of names for error messages, numbers, fields of CSV files,
// arguments of commands.
//
//   throw Error(key, "is '" + name + "'", suggestion(name, known) + "known: " + listed(known));
#pragma once
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace poem {

// The entries of `known` with the smallest edit distance to `name`. The last component alone may match too
// ("epochs" for "train.epochs"). Empty if more than half of the name would have to change, unless `far` is
// set.
std::vector<std::string> nearest(const std::string& name, const std::vector<std::string>& known,
                                 bool far = false);

// "nearest is 'train.epochs'; ", the start of a remedy, with at most three names; empty if nothing is near.
std::string suggestion(const std::string& name, const std::vector<std::string>& known, bool far = false);

// "a, b and c".
std::string listed(const std::vector<std::string>& names);

// A field of a CSV line: quoted if it contains a comma, a quote or a line feed.
std::string csv_field(const std::string& text);

inline bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

// With a to z instead of A to Z, whatever the locale.
std::string lower_case(std::string_view text);

// An argument for a shell: in quotes if it contains a space or another character with a meaning in the
// shell.
std::string shell_quoted(const std::string& text);

// `text` with every `from` replaced by `to`.
std::string replaced(std::string text, const std::string& from, const std::string& to);

// The text as a number. Empty if it is not a number, has other characters around it, or is out of the type's
// range.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, number);
  return problem == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

}  // namespace poem
