// A folder for the files of one test, removed with all it holds.
//
//   TemporaryFolder folder;
//   folder.put("sub/a.bin", bytes);
//   read_something(folder / "sub/a.bin");
#pragma once
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace poem {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "poem_test_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  // Writes a file, and the folders it lies in. Not synced to disk, unlike write_file: tests write many.
  void put(const std::string& name, const std::string& content) const {
    const std::filesystem::path file = std::filesystem::path(path_) / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << content;
  }

 private:
  std::string path_;
};

}  // namespace poem
