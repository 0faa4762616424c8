// What a source contains beside images, so that nothing is lost without a word: files that are not read, and
// folders that would be classes if they had an image.
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

  // Of the folders at the level at which images part into classes, those without an image, each with what it
  // contains. `image_folders` are those that images lie in. Where all images lie in one folder, what lies
  // beside it or beside a folder above it: the classes it had may be among that.
  std::vector<std::string> empty_classes(const std::vector<std::string>& image_folders) const;

 private:
  using Extensions = std::map<std::string, int64_t>;  // how many files have each
  static std::string to_text(const Extensions& extensions);

  std::map<std::string, Extensions> folders_;
};

// The folders ("a/b/") above the level at which images part into classes, which all of these share; and the
// class that a folder below them belongs to, "" for the level itself.
std::string shared_folders(const std::vector<std::string>& image_folders);
std::string class_of(const std::string& folder, const std::string& shared);

// Names that operating systems and tools use for what nobody calls a file: .DS_Store, Thumbs.db, __MACOSX.
bool is_hidden(const std::string& file_name);

}  // namespace poem
