#include "detect/class_names.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "core/json_text.h"
#include "poem/error.h"

namespace poem {

namespace {

// As files of poem keep the text: with U+FFFD for what is not UTF-8.
std::string as_kept(const std::string& text) {
  return nlohmann::json::parse(json_text(nlohmann::json(text))).get<std::string>();
}

}  // namespace

void check_class_names(const std::string& where, const std::vector<std::string>& names) {
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (const std::string kept = as_kept(name); kept != name)
      throw Error(where, fmt::format("has a class '{}', whose name is not UTF-8", kept), "rename its folder");
    if (name == "known" || name == "unsure" || name == "unknown")
      throw Error(where, fmt::format("has a class '{}', a word that verdicts use", name), "rename the class");
    if (!seen.insert(name).second)
      throw Error(where, fmt::format("has two classes '{}'", name), "rename one of them");
  }
}

}  // namespace poem
