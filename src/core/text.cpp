#include "core/text.h"

#include <algorithm>
#include <cstdint>

namespace poem {
namespace {

// How many insertions, deletions, replacements and swaps of neighbours turn `a` into `b`.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> least(a.size() + 1,
                                         std::vector<size_t>(b.size() + 1));  // of their prefixes
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        least[i][j] = i + j;
        continue;
      }
      const size_t replaced = least[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      least[i][j] = std::min({least[i - 1][j] + 1, least[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        least[i][j] = std::min(least[i][j], least[i - 2][j - 2] + 1);
    }
  }
  return least[a.size()][b.size()];
}

std::string last_component(const std::string& name) { return name.substr(name.rfind('.') + 1); }

}  // namespace

std::vector<std::string> nearest(const std::string& name, const std::vector<std::string>& known, bool far) {
  std::vector<std::string> best;
  size_t least = SIZE_MAX;
  for (const std::string& candidate : known) {
    const std::string last = last_component(candidate);
    const size_t distance = std::min(edit_distance(name, candidate), edit_distance(name, last));
    // Components that both names share do not count as similarity.
    const bool near = 2 * distance <= std::max(last_component(name).size(), last.size());
    if ((!near && !far) || distance > least) continue;
    if (distance < least) best.clear();
    least = distance;
    best.push_back(candidate);
  }
  return best;
}

std::string suggestion(const std::string& name, const std::vector<std::string>& known, bool far) {
  constexpr size_t kMost = 3;  // a longer list is no help
  std::vector<std::string> found = nearest(name, known, far);
  found.resize(std::min(found.size(), kMost));
  for (std::string& one : found) one = "'" + one + "'";
  return found.empty() ? "" : (found.size() == 1 ? "nearest is " : "nearest are ") + listed(found) + "; ";
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

std::string shell_quoted(const std::string& text) {
  const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  return "'" + replaced(text, "'", "'\\''") + "'";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace poem
