#include "detect/image_blocks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "core/interrupts.h"
#include "core/progress.h"
#include "poem/crops.h"

namespace poem {

void for_each_block(const ImageSet& images, int64_t size, const at::Device& device,
                    const std::function<void(const at::Tensor& pixels)>& use) {
  const Augmentation whole = plain(size);
  Progress bar(images.name, images.size(), "images");
  std::vector<Crop> crops;
  for (int64_t first = 0; first < images.size(); first += kForwardImages) {
    stop_if_interrupted();
    crops.clear();
    for (int64_t i = first; i < std::min(first + kForwardImages, images.size()); ++i) crops.push_back({i, 0});
    const auto count = static_cast<int64_t>(crops.size());
    use(cut(images, crops.data(), count, whole).to(device));
    bar.advance(count);
  }
}

}  // namespace poem
