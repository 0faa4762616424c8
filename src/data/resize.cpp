#include "data/resize.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace poem {

at::Tensor fit(const at::Tensor& images, int64_t size) {
  const int64_t height = images.size(2), width = images.size(3), shorter = std::min(height, width);
  if (size == 0 || (height == size && width == size)) return images;
  at::Tensor scaled = images;
  if (shorter != size) {
    const int64_t new_height = height * size / shorter, new_width = width * size / shorter;
    const at::Tensor values = images.to(at::kFloat);
    scaled = shorter > size
                 ? at::adaptive_avg_pool2d(values, {new_height, new_width})
                 : at::upsample_bilinear2d(values, {new_height, new_width}, /*align_corners=*/false);
    scaled = scaled.add_(0.5).floor_().clamp_(0, 255).to(at::kByte);
  }
  const int64_t top = (scaled.size(2) - size) / 2, left = (scaled.size(3) - size) / 2;
  return scaled.narrow(2, top, size).narrow(3, left, size).contiguous();
}

}  // namespace poem
