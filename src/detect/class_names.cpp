#include "detect/class_names.h"

#include <fmt/format.h>

#include <set>

#include "poem/error.h"

namespace poem {

void check_class_names(const std::string& where, const std::vector<std::string>& names) {
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (name == "known" || name == "unsure" || name == "unknown")
      throw Error(where, fmt::format("has a class '{}', a word that verdicts use", name), "rename the class");
    if (!seen.insert(name).second)
      throw Error(where, fmt::format("has two classes '{}'", name), "rename one of them");
  }
}

}  // namespace poem
