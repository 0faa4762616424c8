#include "core/output_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>

#include "poem/error.h"

namespace poem {

namespace fs = std::filesystem;

namespace {

constexpr double kPatience = 1;  // seconds: enough for a process that is only writing its results

std::string staged(const std::string& path) { return path + ".part"; }

}  // namespace

void check_output_file(const std::string& path, bool force) {
  if (fs::is_directory(path)) throw Error(path, "is a folder", "name a file");
  if (fs::exists(path) && !fs::is_regular_file(path))  // a rename would replace it
    throw Error(path, "is a device or a pipe", "name a file");
  if (fs::exists(path) && !force) {
    throw Error(path, "exists already", "choose another name, or replace it with option force");
  }
  const std::string parent = fs::absolute(path).parent_path().string();
  if (fs::is_regular_file(parent))
    throw Error(parent, "is a file, but a folder is needed", "choose another name");
  if (!fs::is_directory(parent)) throw Error(path, "its folder does not exist", "make the folder first");
  if (::access(parent.c_str(), W_OK) != 0) {
    throw Error(path, fmt::format("its folder cannot be written: {}", std::strerror(errno)),
                "choose another place");
  }
}

OutputFiles::OutputFiles(const std::vector<std::string>& paths, bool force) {
  std::set<fs::path> seen;
  for (const std::string& path : paths) {
    if (path.empty()) continue;
    if (!seen.insert(fs::weakly_canonical(path)).second) {
      throw Error(path, "is given for two outputs", "give each output its own name");
    }
    check_output_file(path, force);
    paths_.push_back(path);
  }
  for (const std::string& path : paths_) {
    locks_.emplace_back(path, kPatience);
    check_output_file(path, force);  // again: another process may have written it meanwhile
  }
}

OutputFiles::~OutputFiles() {
  std::error_code ignored;
  for (const std::string& path : paths_) fs::remove(staged(path), ignored);
}

void OutputFiles::write(const std::string& path,
                        const std::function<void(const std::string& staged)>& fill) const {
  const std::string place = staged(path);
  try {
    fill(place);
  } catch (const Error& error) {
    if (error.where() != place) throw;
    throw Error(path, error.problem(), error.remedy());
  }
}

void OutputFiles::commit() {
  for (const std::string& path : paths_) {
    std::error_code code;
    fs::rename(staged(path), path, code);
    if (code) throw Error(path, fmt::format("cannot create: {}", code.message()));
  }
  locks_.clear();
}

}  // namespace poem
