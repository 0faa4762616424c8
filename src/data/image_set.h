// Labelled images, in memory or mapped from a packed file.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace poem {

struct ImageSet {
  std::string name;   // where it came from, for messages
  at::Tensor pixels;  // uint8 N×C×H×W, contiguous (float32 N×2×1×1 for the two-dimensional world)
  at::Tensor labels;  // int64 N, each in 0 … class_names.size()−1; undefined where the source has none
  std::vector<std::string> class_names;

  int64_t size() const { return pixels.size(0); }
  int64_t channels() const { return pixels.size(1); }
  int64_t height() const { return pixels.size(2); }
  int64_t width() const { return pixels.size(3); }
  bool labelled() const { return labels.defined(); }
};

// An Error if the images have another number of channels than a network takes.
void check_channels(const ImageSet& images, int64_t channels);

}  // namespace poem
