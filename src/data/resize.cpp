#include "data/resize.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace poem {
namespace {

constexpr int64_t kPixels =
    1 << 24;  // brought to floating point at a time, so that a mapped file need not fit in memory

at::Tensor fit_block(const at::Tensor& images, int64_t size) {
  const int64_t height = images.size(2), width = images.size(3), shorter = std::min(height, width);
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

}  // namespace

at::Tensor fit(const at::Tensor& images, int64_t size) {
  if (size == 0 || (images.size(2) == size && images.size(3) == size)) return images;
  const int64_t count = images.size(0);
  const int64_t block = std::max<int64_t>(1, kPixels / images[0].numel());
  at::Tensor fitted = at::empty({count, images.size(1), size, size}, at::kByte);
  for (int64_t first = 0; first < count; first += block) {
    const int64_t n = std::min(block, count - first);
    fitted.narrow(0, first, n).copy_(fit_block(images.narrow(0, first, n), size));
  }
  return fitted;
}

}  // namespace poem
