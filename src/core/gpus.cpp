#include "core/gpus.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace poem {
namespace {

constexpr const char* kVariable = "CUDA_VISIBLE_DEVICES";

// nvidia0, nvidia12, but not nvidiactl.
bool is_gpu(const std::string& file) {
  const std::string prefix = "nvidia";
  return file.size() > prefix.size() && file.compare(0, prefix.size(), prefix) == 0 &&
         file.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
}

}  // namespace

std::vector<std::string> visible_gpus(const std::string& devices) {
  std::vector<std::string> gpus;
  if (const char* given = std::getenv(kVariable)) {
    std::istringstream list(given);
    for (std::string name; std::getline(list, name, ',');) gpus.push_back(name);
    return gpus;
  }
  std::error_code none;
  for (const auto& file : std::filesystem::directory_iterator(devices, none)) {
    if (is_gpu(file.path().filename())) gpus.push_back(std::to_string(gpus.size()));
  }
  return gpus;
}

std::string gpu_variable(const std::vector<std::string>& gpus, size_t index) {
  return fmt::format("{}={}", kVariable, gpus[index % gpus.size()]);
}

}  // namespace poem
