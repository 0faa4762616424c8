#include "core/memory.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <new>
#include <sstream>
#include <string_view>

namespace poem {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kUnlimited = UINT64_MAX;

uint64_t less(uint64_t limit, uint64_t used) {
  return limit == kUnlimited ? limit : limit - std::min(limit, used);
}

// The number that a file of the kernel holds: its only one, or that behind `key`; `otherwise` where it has
// none ("max" is no number).
uint64_t number_in(const fs::path& file, const std::string& key, uint64_t otherwise) {
  std::ifstream text(file);
  uint64_t number = 0;
  if (key.empty()) return text >> number ? number : otherwise;
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string name;
    if (words >> name >> number && name == key) return number;
  }
  return otherwise;
}

struct GroupFiles {
  const char *root, *limit, *usage, *cache;
};
constexpr GroupFiles kVersion1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                  "total_inactive_file"};
constexpr GroupFiles kVersion2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};

// What is left to the group of this path and to those around it. In a container the path may be that of the
// host: then only the root is there.
uint64_t group_room(const GroupFiles& files, const std::string& group) {
  uint64_t room = kUnlimited;
  const fs::path root = files.root;
  for (fs::path folder = root / fs::path(group).relative_path();; folder = folder.parent_path()) {
    const uint64_t usage = number_in(folder / files.usage, "", 0),
                   cache = number_in(folder / "memory.stat", files.cache, 0);
    room = std::min(room, less(number_in(folder / files.limit, "", kUnlimited), less(usage, cache)));
    if (folder == root || !folder.has_relative_path()) return room;
  }
}

uint64_t groups_room() {
  uint64_t room = kUnlimited;
  std::ifstream lines("/proc/self/cgroup");  // number:controllers:path
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controllers.empty()) room = std::min(room, group_room(kVersion2, line.substr(second + 1)));
    if (controllers.find("memory") != controllers.npos)
      room = std::min(room, group_room(kVersion1, line.substr(second + 1)));
  }
  return room;
}

// What `ulimit -v` leaves.
uint64_t address_room() {
  struct rlimit limit;
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnlimited;
  const uint64_t pages = number_in("/proc/self/statm", "", 0);
  return less(limit.rlim_cur, pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)));
}

uint64_t machine_room() {
  const uint64_t kibibytes = number_in("/proc/meminfo", "MemAvailable:", kUnlimited);
  return kibibytes == kUnlimited ? kUnlimited : kibibytes * 1024;
}

}  // namespace

uint64_t available_memory() { return std::min({machine_room(), groups_room(), address_room()}); }

void check_memory(const std::string& where, uint64_t bytes, const std::string& remedy) {
  const uint64_t available = available_memory();
  if (bytes <= available) return;
  throw Error(where, fmt::format("needs {} MiB of memory, {} MiB are free", bytes >> 20, available >> 20),
              remedy);
}

bool is_out_of_memory(const std::exception& problem) {
  if (dynamic_cast<const std::bad_alloc*>(&problem) != nullptr) return true;
  const auto* torch = dynamic_cast<const c10::Error*>(&problem);
  return torch != nullptr && std::string_view(torch->msg()).find("allocate memory") != std::string_view::npos;
}

}  // namespace poem
