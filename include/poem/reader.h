// A reader understands one image format. read_images() and everything else in poem/read.h then accept it. A
// reader passes its images on in blocks and returns the labels at the end, so that a large source never has
// to be in memory as a whole.
//
//   Labels visit_mine(const std::string& path, const ReadOptions&, const Sink& sink) {
//     sink(pixels);  // uint8 n×C×H×W, once per block
//     return {labels, {"cat", "dog"}};
//   }
//   register_reader({"mine (.mine)", accepts_mine, visit_mine});
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "poem/read.h"

namespace poem {

// Takes a block of images: uint8 n×C×H×W, contiguous. All blocks of a source have the same C; H and W may
// differ between blocks if ReadOptions::size is set, because the caller resizes them.
using Sink = std::function<void(const at::Tensor& pixels)>;

struct Labels {
  at::Tensor labels;  // int64, one per image that went to the sink; undefined if the source has none
  std::vector<std::string> class_names;
  // One per image that went to the sink; empty if the images have no names. A reader need not care about the
  // numbers of images without names.
  ImageNames names = {};
};

// Chooses images of a source. It gets the number and the labels of all images, and returns the indices of the
// chosen ones in ascending order.
using Choose = std::function<std::vector<int64_t>(int64_t count, const Labels& labels)>;

// What the headers of a source say.
struct Outline {
  int64_t count = 0;
  std::vector<int64_t> shape;  // C, H, W of every image; empty if the images differ in shape
  Labels labels;               // of all images
};

struct Reader {
  const char* kind;  // a literal for the list of known formats: "mine (.mine)"
  // Whether the path, which exists, is of this format; by its name, or its content if that is quick.
  bool (*accepts)(const std::string& path);
  // Reads all images.
  Labels (*visit)(const std::string& path, const ReadOptions& options, const Sink& sink);
  // Instead of `visit`, for files that store pixels as an ImageSet has them: maps the file.
  ImageSet (*map)(const std::string& path) = nullptr;
  // Optional: reads only the chosen images, if all labels are known before an image is decoded.
  Labels (*visit_part)(const std::string& path, const ReadOptions& options, const Choose& choose,
                       const Sink& sink) = nullptr;
  // Optional: everything but the pixels, if headers contain it.
  Outline (*outline)(const std::string& path) = nullptr;
};

// Like read_images(), but passes the images on block by block and keeps none of them. Points of the
// two-dimensional world go to the sink as float32. No image at all is an Error.
Labels visit_images(const std::string& source, const ReadOptions& options, const Sink& sink);

// Adds a reader of the caller's own. It is asked before poem's readers, so it may also replace one of them. A
// kind that is taken is an Error. Register before the first use and from one thread.
void register_reader(const Reader& reader);

}  // namespace poem
