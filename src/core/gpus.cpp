#include "core/gpus.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace poem {
namespace {

constexpr const char* kVariable = "CUDA_VISIBLE_DEVICES";

}  // namespace

std::vector<std::string> visible_gpus() {
  std::vector<std::string> gpus;
  if (const char* given = std::getenv(kVariable)) {
    std::istringstream list(given);
    for (std::string name; std::getline(list, name, ',');) gpus.push_back(name);
    return gpus;
  }
  while (std::filesystem::exists(fmt::format("/dev/nvidia{}", gpus.size())))
    gpus.push_back(std::to_string(gpus.size()));
  return gpus;
}

std::string gpu_variable(const std::vector<std::string>& gpus, size_t index) {
  return fmt::format("{}={}", kVariable, gpus[index % gpus.size()]);
}

}  // namespace poem
