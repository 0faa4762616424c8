#include "images/resized_crop.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "poem/random.h"

namespace poem {
namespace {

// Between which two source pixels an output pixel lies, and how far towards the second.
struct Tap {
  int64_t first, second;
  float share;
};

std::vector<Tap> taps(int64_t start, int64_t length, int64_t size) {
  std::vector<Tap> result(size);
  for (int64_t i = 0; i < size; ++i) {
    const double at =
        (static_cast<double>(i) + 0.5) * static_cast<double>(length) / static_cast<double>(size) - 0.5;
    const double inside = std::clamp(at, 0.0, static_cast<double>(length - 1));
    const auto first = static_cast<int64_t>(inside);
    result[i] = {start + first, start + std::min(first + 1, length - 1),
                 static_cast<float>(inside - static_cast<double>(first))};
  }
  return result;
}

}  // namespace

Box draw_box(int64_t height, int64_t width, double min_area, Stream& stream) {
  constexpr int kTries = 10;
  const double log_ratio = std::log(4.0 / 3);
  for (int i = 0; i < kTries; ++i) {
    const double area = stream.uniform(min_area, 1) * static_cast<double>(height * width);
    const double ratio = std::exp(stream.uniform(-log_ratio, log_ratio));
    const int64_t w = std::lround(std::sqrt(area * ratio)), h = std::lround(std::sqrt(area / ratio));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    const auto top = static_cast<int64_t>(stream.below(height - h + 1));
    return {top, static_cast<int64_t>(stream.below(width - w + 1)), h, w};
  }
  const int64_t side = std::min(height, width);
  return {(height - side) / 2, (width - side) / 2, side, side};
}

void resize_box(const uint8_t* in, int64_t channels, int64_t height, int64_t width, const Box& box, bool flip,
                int64_t size, uint8_t* out) {
  const std::vector<Tap> rows = taps(box.top, box.height, size);
  std::vector<Tap> columns = taps(box.left, box.width, size);
  if (flip) std::reverse(columns.begin(), columns.end());
  for (int64_t c = 0; c < channels; ++c) {
    const uint8_t* plane = in + c * height * width;
    for (const Tap& y : rows) {
      const uint8_t *above = plane + y.first * width, *below = plane + y.second * width;
      for (const Tap& x : columns) {
        const float upper = above[x.first] + x.share * (above[x.second] - above[x.first]);
        const float lower = below[x.first] + x.share * (below[x.second] - below[x.first]);
        *out++ = static_cast<uint8_t>(upper + y.share * (lower - upper) + 0.5f);
      }
    }
  }
}

}  // namespace poem
