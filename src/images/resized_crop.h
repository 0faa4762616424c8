// Random resized crops, the view of contrastive learning: a box of random area and shape, brought to size by
// bilinear interpolation.
#pragma once
#include <cstdint>

namespace poem {

class Stream;

struct Box {
  int64_t top, left, height, width;
};

// Area uniform in [min_area, 1] of the image, width over height log-uniform in [3/4, 4/3], the place uniform.
// If ten tries do not fit the image: the largest square in its middle.
Box draw_box(int64_t height, int64_t width, double min_area, Stream& stream);

// Channel planes of height×width in, of size×size out; output pixels are sampled at their centres. `flip`
// mirrors left-right.
void resize_box(const uint8_t* in, int64_t channels, int64_t height, int64_t width, const Box& box, bool flip,
                int64_t size, uint8_t* out);

}  // namespace poem
