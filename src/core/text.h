// Small helpers on text: names that were probably meant and lists of them for error messages, numbers, fields
// of CSV files, arguments of commands.
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

// Those of `known` that `name` probably stands for: with the smallest edit distance, where one may be meant
// by its last component alone ("epochs" for "train.epochs"). None if more than half of it would change,
// unless `far` ones count too.
std::vector<std::string> nearest(const std::string& name, const std::vector<std::string>& known,
                                 bool far = false);

// "nearest is 'train.epochs'; ", to begin a remedy with; empty if nothing is near.
std::string suggestion(const std::string& name, const std::vector<std::string>& known, bool far = false);

// "a, b and c".
std::string listed(const std::vector<std::string>& names);

// A field of a CSV line: quoted where it holds a comma, a quote or a line feed.
std::string csv_field(const std::string& text);

// An argument as a shell takes it: in quotes where it holds a space or anything else that has a meaning
// there.
std::string shell_quoted(const std::string& text);

// `text` with every `from` as `to`.
std::string replaced(std::string text, const std::string& from, const std::string& to);

// The text as a number; empty where it is none, or has anything else beside it, or is out of the type's
// range.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, number);
  return problem == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

}  // namespace poem
