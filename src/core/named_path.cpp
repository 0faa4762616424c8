#include "core/named_path.h"

#include <fmt/format.h>

#include <set>

#include "poem/error.h"

namespace poem {

std::vector<NamedPath> named_paths(const std::string& option, const std::vector<std::string>& entries) {
  std::vector<NamedPath> all;
  std::set<std::string> names;
  for (const std::string& entry : entries) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == entry.size()) {
      throw Error(
          option, fmt::format("'{}' is not NAME=PATH", entry),
          "give it a name, such as unknown=" + entry.substr(equals == std::string::npos ? 0 : equals + 1));
    }
    all.push_back({entry.substr(0, equals), entry.substr(equals + 1)});
    if (all.back().name == "mean") {
      throw Error(option, "the name 'mean' is reserved for the mean over all sets", "choose another name");
    }
    if (!names.insert(all.back().name).second) {
      throw Error(option, fmt::format("the name '{}' is given twice", all.back().name),
                  "give each set its own name");
    }
  }
  return all;
}

void check_file_names(const std::string& option, const std::vector<NamedPath>& entries) {
  constexpr size_t kLongest = 200;  // file systems allow 255 bytes, and temporary files add an extension
  for (const auto& [name, path] : entries) {
    if (name == "id" || name.size() > kLongest || name.find_first_of(std::string("/\0", 2)) != name.npos) {
      throw Error(option, fmt::format("the name '{}' cannot be a file beside id.npy", name),
                  "choose another name");
    }
  }
}

}  // namespace poem
