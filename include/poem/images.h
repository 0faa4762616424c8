// Labelled images, in memory or mapped from a file.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "poem/image_names.h"

namespace poem {

struct ImageSet {
  std::string name;  // where it came from, for messages
  // uint8 rows×C×H×W (float32 N×2×1×1 for the two-dimensional world): contiguous, but for a mapped file whose
  // planes go column by column, H varying fastest. Image i of the set is row(i).
  at::Tensor pixels;
  at::Tensor labels;  // int64 N, each in 0 … class_names.size()−1; undefined where the source has none
  std::vector<std::string> class_names;
  std::vector<int64_t> left_out = {};  // ascending: rows of `pixels` that are no images of the set
  // One per image, as a path below the source; empty where images have no names (arrays, drawn worlds).
  ImageNames names = {};

  int64_t size() const { return pixels.size(0) - static_cast<int64_t>(left_out.size()); }
  int64_t channels() const { return pixels.size(1); }
  int64_t height() const { return pixels.size(2); }
  int64_t width() const { return pixels.size(3); }
  bool labelled() const { return labels.defined(); }
  int64_t row(int64_t image) const;        // of `pixels`
  std::string title(int64_t image) const;  // its name, or its index where images have no names
};

// Where pixels lie while a GPU trains on them: in its memory if they fit, or always streamed to it.
enum class ImagePlace { kAuto, kStream };

// The images named, in this order, as a set of its own.
ImageSet subset(const ImageSet& images, const std::vector<int64_t>& indices);

// Takes rows (ascending, each once) out of a set of which nothing was left out yet.
void leave_out(ImageSet& images, std::vector<int64_t> rows);

// An Error if the images have another number of channels than a network takes.
void check_channels(const ImageSet& images, int64_t channels);

}  // namespace poem
