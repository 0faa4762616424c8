// Turns JPEG and PNG files, from a folder or out of an archive, into blocks of pixels and labels. Blocks are
// decoded by all threads, the order stays.
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

#include "data/reader.h"

namespace poem {

class ImageFiles {
 public:
  ImageFiles(std::string source, const ReadOptions& options, Sink sink);

  // `where` is what messages call the image, and the file to read where there are no bytes. `name` is its
  // path below the source.
  void add(std::string where, std::string name, std::optional<std::string> bytes = {});

  // Tells the name of every image before any is added, of those too that never will be: their folders decide
  // on the classes. Returns the labels of all. What finish() would refuse is refused here.
  Labels announce(const std::vector<std::string>& names);

  // The classes are the sorted names of the first level of folders at which the images part: folders that all
  // images share say nothing. Images in one folder have no labels. No image at all is an Error.
  Labels finish();

 private:
  struct Item {
    std::string where, name;
    int64_t folder;  // an index into folders_
    std::optional<std::string> bytes;
  };
  int64_t folder_index(const std::string& name);            // of the image so called
  Labels label(const std::vector<int64_t>& folders) const;  // images that lie in these
  void flush();
  void check_size(const std::string& where, const at::Tensor& image);

  std::string source_;
  ReadOptions options_;
  Sink sink_;
  std::vector<Item> waiting_;
  std::map<std::string, int64_t> folders_;
  std::vector<int64_t> kept_;  // the folder of each image that went to the sink
  ImageNames names_;           // of the same
  std::string first_;          // the image whose size all others must have
  std::vector<int64_t> first_size_;
};

}  // namespace poem
