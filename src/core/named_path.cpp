#include "core/named_path.h"

#include <fmt/format.h>

#include <set>

#include "core/error.h"

namespace poem {

std::vector<NamedPath> named_paths(const std::string& option, const std::vector<std::string>& entries) {
  std::vector<NamedPath> all;
  std::set<std::string> names;
  for (const std::string& entry : entries) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == entry.size()) {
      throw Error(option, fmt::format("'{}' is not NAME=PATH", entry), "write for instance svhn=data/svhn");
    }
    all.push_back({entry.substr(0, equals), entry.substr(equals + 1)});
    if (all.back().name == "mean") {
      throw Error(option, "the name 'mean' is that of the mean over all sets", "choose another");
    }
    if (!names.insert(all.back().name).second) {
      throw Error(option, fmt::format("the name '{}' is given twice", all.back().name),
                  "give each set a name of its own");
    }
  }
  return all;
}

}  // namespace poem
