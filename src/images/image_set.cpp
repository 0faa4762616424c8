#include "poem/images.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "images/left_out.h"
#include "poem/error.h"

namespace poem {

int64_t ImageSet::row(int64_t image) const { return number_without(left_out, image); }

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
  if (images.labelled()) {
    const at::Tensor kept = at::ones({images.size()}, at::kBool);
    for (const int64_t i : indices) kept.data_ptr<bool>()[i] = false;
    images.labels = images.labels.masked_select(kept);
  }
  images.names.leave_out(indices);
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
