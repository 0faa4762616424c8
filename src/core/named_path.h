// Command line arguments of the form NAME=PATH.
//
//   for (const auto& [name, path] : named_paths("--ood", {"svhn=svhn.npy", "dtd=dtd.npy"})) …
#pragma once
#include <string>
#include <vector>

namespace poem {

struct NamedPath {
  std::string name, path;
};

// In the order given. An entry without a name or a path, or a name given twice, is a poem::Error.
std::vector<NamedPath> named_paths(const std::string& option, const std::vector<std::string>& entries);

// For names that become files NAME.npy beside id.npy: an Error if a name cannot be such a file.
void check_file_names(const std::string& option, const std::vector<NamedPath>& entries);

}  // namespace poem
