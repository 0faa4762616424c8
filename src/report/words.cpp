#include "report/words.h"

#include <fmt/format.h>

#include <cmath>

namespace poem {

std::string percent_text(double share, int digits) {
  return std::isfinite(share) ? with_percent_sign(fmt::format("{:.{}f}", 100 * share, digits)) : "–";
}

std::string in_percent(double share) {
  return std::isfinite(share) ? fmt::format("{:.2f}", 100 * share) : "–";
}

std::string counted(size_t count, const std::string& what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string with_percent_sign(const std::string& figure) { return figure + "\u00a0%"; }

}  // namespace poem
