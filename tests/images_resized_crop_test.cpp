#include "images/resized_crop.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "poem/random.h"

namespace poem {
namespace {

TEST(DrawBox, LiesInsideWithAreaAndShapeInTheirRanges) {
  double least = 1, most = 0;
  for (int i = 0; i < 2000; ++i) {
    Stream stream(1, "box", i);
    const Box box = draw_box(40, 60, 0.2, stream);
    ASSERT_GE(box.top, 0);
    ASSERT_GE(box.left, 0);
    ASSERT_LE(box.top + box.height, 40);
    ASSERT_LE(box.left + box.width, 60);
    const double area = static_cast<double>(box.height * box.width) / 2400;
    const double shape = static_cast<double>(box.width) / static_cast<double>(box.height);
    ASSERT_GT(area, 0.18);
    ASSERT_GT(shape, 0.7);
    ASSERT_LT(shape, 1.4);
    least = std::min(least, area);
    most = std::max(most, area);
  }
  EXPECT_LT(least, 0.25);
  EXPECT_GT(most, 0.6);
}

TEST(DrawBox, FallsBackToTheMiddleSquare) {
  Stream stream(1, "box");
  const Box box = draw_box(10, 1000, 0.9, stream);  // no box of that shape has so much of this image
  EXPECT_EQ(box.top, 0);
  EXPECT_EQ(box.left, 495);
  EXPECT_EQ(box.height, 10);
  EXPECT_EQ(box.width, 10);
}

TEST(ResizeBox, TheWholeImageAtItsOwnSizeIsTheImage) {
  std::vector<uint8_t> in(2 * 5 * 5), out(50);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint8_t>(5 * i);
  resize_box(in.data(), 2, 5, 5, {0, 0, 5, 5}, false, 5, out.data());
  EXPECT_EQ(in, out);
  resize_box(in.data(), 2, 5, 5, {0, 0, 5, 5}, true, 5, out.data());
  for (int row = 0; row < 10; ++row) {
    for (int x = 0; x < 5; ++x) EXPECT_EQ(out[row * 5 + x], in[row * 5 + 4 - x]);
  }
}

// Bilinear interpolation reproduces a plane exactly, up to rounding, away from the box's rim.
TEST(ResizeBox, InterpolatesAPlaneExactly) {
  const int64_t h = 20, w = 24, size = 16;
  std::vector<uint8_t> in(h * w), out(size * size);
  for (int64_t y = 0; y < h; ++y) {
    for (int64_t x = 0; x < w; ++x) in[y * w + x] = static_cast<uint8_t>(10 + 4 * y + 3 * x);
  }
  const Box box{3, 5, 12, 17};
  resize_box(in.data(), 1, h, w, box, false, size, out.data());
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t j = 0; j < size; ++j) {
      const double y = std::clamp((i + 0.5) * 12 / 16 - 0.5, 0.0, 11.0) + 3;
      const double x = std::clamp((j + 0.5) * 17 / 16 - 0.5, 0.0, 16.0) + 5;
      EXPECT_NEAR(out[i * size + j], 10 + 4 * y + 3 * x, 0.51);
    }
  }
}

}  // namespace
}  // namespace poem
