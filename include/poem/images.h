// A set of images with labels and names, in memory or mapped from a file.
//
//   ImageSet photos = read_images("photos/");     // poem/read.h
//   photos.pixels[photos.row(0)];                 // the first image, uint8 C×H×W
//   photos.class_names[photos.labels[0].item<int64_t>()];
//   photos.title(0);                              // "cat/1.png"
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace poem {

// The names of images in order, in one block of text, so that a million names take little more than their
// letters.
//
//   ImageNames names;
//   names.add("cat/1.png");
//   names[0];                 // "cat/1.png", valid until the next add()
//   names.select({0, 0});     // a copy: the names of images 0 and 0
//
// Images without names are identified by their number in their source. They keep it in a part of the source:
//
//   ImageNames().select({4, 9}).title(1);  // "9"
class ImageNames {
 public:
  void add(std::string_view name);
  std::string_view operator[](int64_t image) const;
  int64_t size() const { return static_cast<int64_t>(ends_.size()); }
  bool empty() const { return ends_.empty(); }  // the images have no names
  std::string title(int64_t image) const;       // the name or, without names, the number

  // Those of a part: of these images in this order; of all but these (ascending, without repeats).
  ImageNames select(const std::vector<int64_t>& images) const;
  void leave_out(const std::vector<int64_t>& images);

 private:
  int64_t number(int64_t image) const;

  std::string text_;
  std::vector<size_t> ends_;  // where each name ends in text_; it begins where the previous one ends
  // Without names. A whole source has neither of these, and a huge one that lacks a few images only the
  // second.
  std::vector<int64_t> numbers_;   // in the source, of images that were selected
  std::vector<int64_t> left_out_;  // ascending: numbers of images of the source that are not in the set
};

struct ImageSet {
  std::string name;  // where the images came from, for messages
  // uint8 rows×C×H×W, RGB or grey; contiguous, except for a mapped file that stores its planes column by
  // column. (The two-dimensional world has float32 N×2×1×1.) Image i of the set is row(i).
  at::Tensor pixels;
  at::Tensor labels;  // int64 N, each in 0 … class_names.size()−1; undefined if the source has none
  std::vector<std::string> class_names;
  std::vector<int64_t> left_out = {};  // ascending: rows of `pixels` that do not belong to the set
  // One path per image, relative to the source; or the numbers of images that have no names.
  ImageNames names = {};
  // An image of which each pixel is repeated 2×2 is a smaller file: only the Gaussian filter acts on it.
  bool may_repeat = false;

  int64_t size() const { return pixels.size(0) - static_cast<int64_t>(left_out.size()); }  // N
  int64_t channels() const { return pixels.size(1); }
  int64_t height() const { return pixels.size(2); }
  int64_t width() const { return pixels.size(3); }
  bool labelled() const { return labels.defined(); }
  int64_t row(int64_t image) const;  // of `pixels`
  // The image's name or, if the images have no names, its number in the source.
  std::string title(int64_t image) const { return names.title(image); }
};

// Where pixels are while a GPU trains on them. kAuto: all in the GPU's memory if they fit. Otherwise, and
// always with kStream, the GPU gets the images of each batch when it needs them.
enum class ImagePlace { kAuto, kStream };

// A copy of these images in this order.
ImageSet subset(const ImageSet& images, const std::vector<int64_t>& indices);

// Removes images (ascending, without repeats) from a set. Copies no pixels.
void leave_out(ImageSet& images, const std::vector<int64_t>& indices);

// Throws an Error if the images do not have this number of channels.
void check_channels(const ImageSet& images, int64_t channels);

}  // namespace poem
