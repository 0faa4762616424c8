// The files of a source that are not read, and the folders that would be classes if they contained an image:
// the log names both, so that nothing is lost in silence.
//
//   PassedOver passed_over;
//   passed_over.add_file("emu/1.heic");
//   passed_over.summary();                       // "1 file: 1 .heic"
//   passed_over.empty_classes({"cat", "dog/old"})  // {"emu (1 .heic)"}
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace poem {

class PassedOver {
 public:
  // Paths below the source.
  void add_file(const std::string& name);
  void add_folder(const std::string& name);  // may be empty, or contain images

  std::string summary() const;  // empty where no file was passed over

  // The class folders without an image, each with what it contains. `image_folders` are the folders with
  // images. If all images lie in one folder, the level of the classes is unknown: then all folders beside it,
  // or beside a folder above it, are returned.
  std::vector<std::string> empty_classes(const std::vector<std::string>& image_folders) const;

 private:
  using Extensions = std::map<std::string, int64_t>;  // how many files have each extension
  static std::string to_text(const Extensions& extensions);

  std::map<std::string, Extensions> folders_;
};

// The leading folders ("a/b/") that all of these have in common; the classes lie below them. And the class
// that a folder belongs to, "" for the common folder itself.
std::string shared_folders(const std::vector<std::string>& image_folders);
std::string class_of(const std::string& folder, const std::string& shared);

// Names of files that operating systems and tools create by themselves: .DS_Store, Thumbs.db, __MACOSX.
bool is_hidden(const std::string& file_name);

}  // namespace poem
