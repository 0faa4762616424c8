#include "core/array_file.h"

#include <ATen/ATen.h>

#include <filesystem>
#include <vector>

#include "core/npy.h"
#include "core/text.h"
#include "poem/error.h"

namespace poem {

StoredArray open_array(const std::string& path, const std::string& name) {
  if (std::filesystem::path(path).extension() != ".npz") return open_npy(path);
  const auto arrays = open_npz(path);
  if (const auto found = arrays.find(name); found != arrays.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [other, array] : arrays) names.push_back(other);
  throw Error(path, "has no array '" + name + "'",
              names.empty() ? "it is empty" : "it has " + listed(names) + "; numpy.savez names arrays");
}

at::Tensor read_array(const std::string& path, const std::string& name) {
  return open_array(path, name).read();
}

}  // namespace poem
