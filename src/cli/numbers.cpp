#include "cli/numbers.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "core/text.h"

namespace poem {
namespace {

template <class Number>
CLI::Validator between(const char* kind, Number low, Number high, bool open) {
  const std::string range =
      open ? fmt::format("of at least {}", low) : fmt::format("from {} to {}", low, high);
  return CLI::Validator(
      [=](const std::string& text) -> std::string {
        const auto value = parse_number<Number>(text);
        if (value && *value >= low && *value <= high) return "";
        return fmt::format("is '{}', not {} {}", text, kind, range);
      },
      "");
}

}  // namespace

CLI::Validator whole(int64_t low, int64_t high) {
  return between("a whole number", low, high, high == std::numeric_limits<int64_t>::max());
}

CLI::Validator number(double low, double high) {
  // No option takes infinity.
  return between("a number", low, std::min(high, std::numeric_limits<double>::max()), std::isinf(high));
}

}  // namespace poem
