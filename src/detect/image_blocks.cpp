#include "detect/image_blocks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "core/interrupts.h"
#include "core/progress.h"
#include "images/resize.h"

namespace poem {

at::Tensor network_input(const ImageSet& images, int64_t first, int64_t count, int64_t size) {
  std::vector<int64_t> rows;
  for (int64_t i = first; i < first + count; ++i) rows.push_back(images.row(i));
  const at::Tensor pixels = images.pixels.index_select(0, at::tensor(rows));
  return pixels.scalar_type() == at::kByte ? fit(pixels, size) : pixels;
}

void for_each_block(const ImageSet& images, int64_t size, const at::Device& device,
                    const std::function<void(const at::Tensor& pixels)>& use) {
  Progress bar(images.name, images.size(), "images");
  for (int64_t first = 0; first < images.size(); first += kForwardImages) {
    stop_if_interrupted();
    const int64_t count = std::min(kForwardImages, images.size() - first);
    use(network_input(images, first, count, size).to(device));
    bar.advance(count);
  }
}

}  // namespace poem
