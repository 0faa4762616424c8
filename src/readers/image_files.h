// Turns image files, from a folder or out of an archive, into blocks of pixels and labels. All threads
// decode; the order of the images stays.
//
//   ImageFiles files("animals", options, sink);
//   files.add("animals/cat/1.png", "cat/1.png");            // read when its block is decoded
//   files.add("animals.zip:dog/2.png", "dog/2.png", bytes);
//   Labels labels = files.finish();
#pragma once
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "poem/reader.h"
#include "readers/passed_over.h"

namespace poem {

constexpr size_t kMostImageBytes = size_t{1} << 30;  // a larger file has more pixels than can be decoded

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
  // An image whose bytes cannot be had.
  void add_bad(const std::string& where, const std::string& name, const Error& problem);

  // The class of a sample of WebDataset: the text of KEY.cls beside KEY.png, which lie next to each other.
  // Such classes count instead of folders. `where` names the file in messages. A class must not come after
  // more than 256 MiB of images of its sample.
  bool takes_classes() const { return !options_.on_image; }
  void add_class(const std::string& where, const std::string& name, const std::string& text);
  void leave_sample();  // it ends with its archive: the next one may have another sample of the same name

  // Takes the names of all images before the first is added, including images that are never added: their
  // folders decide on the classes. announced() then returns the labels of all. It throws what finish() would
  // throw, except for bad images.
  void announce(const std::string& name);
  Labels announced();

  // Decodes what was added so far.
  void flush();

  // The classes are the sorted names of the folders at the first level where the images lie in different
  // folders. Images in one folder have no labels. If samples have classes, these are the classes, sorted as
  // numbers if all are. An image without one is then an Error with options.every_class; else a warning, and
  // no image has a label. No image at all is an Error.
  Labels finish();

 private:
  struct Origin {               // what decides on an image's class
    int32_t folder;             // an index into folders_
    int32_t sample_class = -1;  // an index into sample_classes_
  };
  struct Item {
    std::string where, name;
    Origin origin;
    std::optional<std::string> bytes;
    std::optional<Error> problem;
  };
  Origin origin_of(const std::string& name);  // of the next image
  void enter_sample(const std::string& name);
  int32_t class_index();  // of the sample
  Labels label(const std::vector<Origin>& images) const;
  Labels label_by_sample(const std::vector<Origin>& images) const;
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
  std::deque<Item> waiting_;
  size_t waiting_bytes_ = 0;
  std::map<std::string, int32_t> folders_;
  std::map<std::string, int32_t> sample_classes_;
  std::optional<std::string> sample_;  // key of the last image or class
  std::string sample_class_;           // empty: none yet
  std::vector<std::string> sample_images_;
  bool sample_begun_ = false;          // images of it are decoded, without a class
  std::string classless_;              // an image of a sample without a class
  std::vector<std::string> examples_;  // the first image of each folder
  PassedOver passed_over_;
  bool told_ = false;
  std::vector<Origin> announced_;
  std::vector<Origin> kept_, bad_;  // of each image that went to the sink, or was left out
  ImageNames names_;                // of those that were kept
  std::string first_;               // the image whose size all others must have
  std::vector<int64_t> first_size_;
};

}  // namespace poem
