// Turns image files, from a folder or out of an archive, into blocks of pixels and labels. All threads
// decode; the order of the images stays.
//
//   ImageFiles files("animals", options, sink);
//   files.add("animals/cat/1.png", "cat/1.png");            // read when its block is decoded
//   files.add("animals.zip:dog/2.png", "dog/2.png", bytes);
//   Labels labels = files.finish();
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "poem/reader.h"
#include "readers/passed_over.h"

namespace poem {

class ImageFiles {
 public:
  ImageFiles(std::string source, const ReadOptions& options, Sink sink);

  // Other files and folders of the source, by their path below it. The log names them once all are known. A
  // class folder without an image is a warning, or an Error with options.every_class.
  void pass_over(const std::string& name) { passed_over_.add_file(name); }
  void add_folder(const std::string& name) { passed_over_.add_folder(name); }

  // `where` names the image in messages and, without `bytes`, is the file to read. `name` is its path below
  // the source.
  void add(std::string where, std::string name, std::optional<std::string> bytes = {});

  // Takes the names of all images before the first is added, including images that are never added: their
  // folders decide on the classes. announced() then returns the labels of all. It throws what finish() would
  // throw, except for bad images.
  void announce(const std::string& name) { announced_.push_back(folder_index(name)); }
  Labels announced();

  // Decodes what was added so far.
  void flush();

  // The classes are the sorted names of the folders at the first level where the images lie in different
  // folders. Images in one folder have no labels. No image at all is an Error.
  Labels finish();

 private:
  struct Item {
    std::string where, name;
    int64_t folder;  // an index into folders_
    std::optional<std::string> bytes;
  };
  int64_t folder_index(const std::string& name);            // of the folder of this image
  Labels label(const std::vector<int64_t>& folders) const;  // of images in these folders
  std::vector<std::string> folder_names() const;
  size_t block() const;
  void decode(size_t block);
  void tell_passed_over();
  void tell_bad_classes(const Labels& kept) const;
  void complain_of_classes(const std::vector<std::string>& without_image) const;
  void check_size(const std::string& where, const at::Tensor& image);

  std::string source_;
  ReadOptions options_;
  Sink sink_;
  std::vector<Item> waiting_;
  size_t waiting_bytes_ = 0;
  std::map<std::string, int64_t> folders_;
  std::vector<std::string> examples_;  // the first image of each folder
  PassedOver passed_over_;
  bool told_ = false;
  std::vector<int64_t> announced_;   // the folder of each
  std::vector<int64_t> kept_, bad_;  // the folder of each image that went to the sink, or was left out
  ImageNames names_;                 // of those that were kept
  std::string first_;                // the image whose size all others must have
  std::vector<int64_t> first_size_;
};

}  // namespace poem
