#include "poem/images.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "poem/error.h"

namespace poem {

int64_t ImageSet::row(int64_t image) const {
  // left_out[k] − k images come before the k-th row left out: by bisection, how many such rows come before
  // ours.
  size_t low = 0, high = left_out.size();
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (left_out[middle] - static_cast<int64_t>(middle) <= image) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return image + static_cast<int64_t>(low);
}

std::string ImageSet::title(int64_t image) const {
  return names.empty() ? std::to_string(image) : std::string(names[image]);
}

ImageSet subset(const ImageSet& images, const std::vector<int64_t>& indices) {
  std::vector<int64_t> rows;
  rows.reserve(indices.size());
  for (const int64_t i : indices) rows.push_back(images.row(i));
  ImageSet part{images.name, images.pixels.index_select(0, at::tensor(rows, at::kLong)).contiguous(),
                {},          images.class_names,
                {},          images.names.select(indices)};
  if (images.labelled()) part.labels = images.labels.index_select(0, at::tensor(indices, at::kLong));
  return part;
}

void leave_out(ImageSet& images, const std::vector<int64_t>& indices) {
  std::vector<int64_t> rows, all;
  for (const int64_t i : indices) rows.push_back(images.row(i));
  if (images.labelled() || !images.names.empty()) {
    std::vector<int64_t> kept;
    auto next = indices.begin();
    for (int64_t i = 0; i < images.size(); ++i) {
      if (next != indices.end() && *next == i)
        ++next;
      else
        kept.push_back(i);
    }
    images.names = images.names.select(kept);
    if (images.labelled()) images.labels = images.labels.index_select(0, at::tensor(kept, at::kLong));
  }
  std::merge(rows.begin(), rows.end(), images.left_out.begin(), images.left_out.end(),
             std::back_inserter(all));
  images.left_out = std::move(all);
}

void check_channels(const ImageSet& images, int64_t channels) {
  if (images.channels() == channels) return;
  throw Error(
      images.name, fmt::format("has {} channels, the network takes {}", images.channels(), channels),
      "convert the images, or give network.mean and network.std one number per channel and train again");
}

}  // namespace poem
