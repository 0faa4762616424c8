// What a reader of one image format is, for the files behind poem/read.h. A reader hands its images on in
// blocks and returns the labels when all have passed, so that nobody has to hold a whole source.
//
//   Labels visit_mine(const std::string& path, const ReadOptions&, const Sink& sink) {
//     sink(pixels);  // uint8 n×C×H×W, as often as there are blocks
//     return {labels, {"cat", "dog"}};
//   }
//   extern const Reader my_reader = {"mine (.mine)", accepts_mine, visit_mine};  // listed in read.cpp
//
// A reader of files that hold pixels as an ImageSet has them maps them instead, so that nobody has to read
// them.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "poem/read.h"

namespace poem {

using Sink = std::function<void(const at::Tensor& pixels)>;

struct Labels {
  at::Tensor labels;  // int64, one per image that went to the sink; undefined where the source has none
  std::vector<std::string> class_names;
  ImageNames names = {};  // likewise one per image, as ImageSet has them; empty where images have no names
};

// Which of `count` images with these labels are meant: their rows, ascending.
using Choose = std::function<std::vector<int64_t>(int64_t count, const Labels& labels)>;

// What a source holds, as far as its headers tell.
struct Outline {
  int64_t count = 0;
  std::vector<int64_t> shape;  // of every image: C, H, W; empty where they differ
  Labels labels;               // of all images
};

struct Reader {
  const char* kind;                          // for the list of known formats
  bool (*accepts)(const std::string& path);  // by name and kind of the path; it exists
  Labels (*visit)(const std::string& path, const ReadOptions& options, const Sink& sink);
  ImageSet (*map)(const std::string& path) = nullptr;  // instead of `visit`
  // Beside `visit`, where images and labels are known before anything is decoded: only the rows chosen.
  Labels (*visit_part)(const std::string& path, const ReadOptions& options, const Choose& choose,
                       const Sink& sink) = nullptr;
  // Beside `visit`, where headers tell all but the pixels.
  Outline (*outline)(const std::string& path) = nullptr;
};

// ---- what several readers need --------------------------------------------------------------------------

// Hands `pixels` (uint8 n×C×H×W, any strides) on in contiguous blocks of a few MiB, with a progress bar; ends
// on Ctrl-C.
void visit_in_blocks(const at::Tensor& pixels, const Sink& sink);
void visit_in_blocks(const ImageSet& images, const Sink& sink);

std::vector<std::string> number_names(int64_t count, int64_t first = 0);  // "0", "1", …

// The lines of a file of class names, or plain numbers where there is no such file. Not `count` names: Error.
std::vector<std::string> read_class_names(const std::string& path, int64_t count);

// Throws an Error that names the first label outside low … high.
void check_labels(const std::string& where, const at::Tensor& labels, int64_t low, int64_t high);

// The number of a file named prefix + digits + suffix; none of one named otherwise.
std::optional<int64_t> number_in(const std::string& name, const std::string& prefix,
                                 const std::string& suffix);

// Files of `folder` named prefix + digits + suffix, by ascending number.
std::vector<std::string> numbered_files(const std::string& folder, const std::string& prefix,
                                        const std::string& suffix);

bool has_extension(const std::string& path, const std::string& extension);  // any case, with its dot

}  // namespace poem
