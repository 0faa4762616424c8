#include "images/resize.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "encode_images.h"
#include "poem/crops.h"
#include "train/memory.h"

namespace poem {
namespace {

TEST(Fit, LeavesWhatFits) {
  const at::Tensor images = random_bytes({2, 3, 8, 8}, 1);
  EXPECT_EQ(fit(images, 8).data_ptr(), images.data_ptr());
  EXPECT_EQ(fit(images, 0).data_ptr(), images.data_ptr());
}

TEST(Fit, ShrinksByTheMeanOfEachArea) {
  const at::Tensor images = random_bytes({2, 3, 12, 12}, 2), small = fit(images, 4);
  ASSERT_EQ(small.sizes(), at::IntArrayRef({2, 3, 4, 4}));
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t y = 0; y < 4; ++y)
        for (int64_t x = 0; x < 4; ++x) {
          double sum = 0;
          for (int64_t i = 0; i < 9; ++i) sum += images[n][c][3 * y + i / 3][3 * x + i % 3].item<int>();
          EXPECT_EQ(small[n][c][y][x].item<int>(), static_cast<int>(std::floor(sum / 9 + 0.5)));
        }
}

// Sides that do not divide: repeating each pixel as often as the shorter side has pixels afterwards makes
// every pixel of the small image a whole block of the fine one.
TEST(Fit, AveragesExactAreasAtEveryRatio) {
  for (const auto& [height, width, size] :
       {std::tuple<int64_t, int64_t, int64_t>{5, 5, 3}, {7, 10, 4}, {10, 7, 4}, {9, 31, 8}}) {
    const at::Tensor images = random_bytes({2, 3, height, width}, height), small = fit(images, size);
    const int64_t shorter = std::min(height, width);
    const int64_t rows = height * size / shorter, columns = width * size / shorter;
    const at::Tensor fine = images.to(at::kDouble).repeat_interleave(rows, 2).repeat_interleave(columns, 3);
    const at::Tensor mean = at::avg_pool2d(fine, {height, width});
    ASSERT_EQ(mean.sizes(), at::IntArrayRef({2, 3, rows, columns}));
    const at::Tensor centre = mean.narrow(2, (rows - size) / 2, size).narrow(3, (columns - size) / 2, size);
    EXPECT_TRUE(small.equal((centre + 0.5 + 1e-9).floor().to(at::kByte)));
  }
}

TEST(Fit, GivesTheSameBytesAsACutOfSquareImages) {
  const ImageSet images{"noise", random_bytes({3, 3, 50, 50}, 5), {}, {}};
  const std::vector<Crop> crops = {{0, 1}, {1, 2}, {2, 3}};
  EXPECT_TRUE(fit(images.pixels, 32).equal(cut(images, crops.data(), 3, plain(32))));
}

TEST(Fit, CutsTheCentreOfTheLongerSide) {
  const at::Tensor wide = random_bytes({1, 3, 4, 9}, 3);
  EXPECT_TRUE(fit(wide, 4).equal(wide.narrow(3, 2, 4)));
  const at::Tensor tall = wide.transpose(2, 3).contiguous();
  EXPECT_TRUE(fit(tall, 4).equal(tall.narrow(2, 2, 4)));
  // Shrinking and cutting: 4×12 → 2×6 → its middle 2×2.
  const at::Tensor long_one = random_bytes({1, 1, 4, 12}, 4);
  EXPECT_TRUE(fit(long_one, 2).equal(fit(long_one.narrow(3, 4, 4).contiguous(), 2)));
}

TEST(Fit, GrowsBilinearly) {
  const at::Tensor two = at::tensor({0, 100, 40, 200}, at::kByte).view({1, 1, 2, 2}), four = fit(two, 4);
  // Pixel centres of the large image lie at −0.25, 0.25, 0.75, 1.25 of the small one, held at its borders.
  const double weight[4] = {0, 0.25, 0.75, 1};
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 4; ++x) {
      const double top = 100 * weight[x], bottom = 40 + 160 * weight[x];
      EXPECT_EQ(four[0][0][y][x].item<int>(), std::floor(top + (bottom - top) * weight[y] + 0.5));
    }
}

// LibTorch enlarges the whole image, of which the middle is then cut out. Its float32 may be on either side
// of a half, depending on the processor.
TEST(Fit, GrowsLikeTheWholeImage) {
  for (const auto& [height, width, size] : {std::tuple<int64_t, int64_t, int64_t>{28, 28, 32},
                                            {1, 1, 8},
                                            {1, 997, 16},
                                            {997, 1, 32},
                                            {2, 301, 7},
                                            {3, 50, 224},
                                            {31, 33, 64},
                                            {20, 30, 48},
                                            {30, 20, 33},
                                            {17, 1000, 32},
                                            {7, 9, 10}}) {
    SCOPED_TRACE(height);
    const at::Tensor images = random_bytes({3, 3, height, width}, width), fitted = fit(images, size);
    const int64_t shorter = std::min(height, width);
    const int64_t rows = height * size / shorter, columns = width * size / shorter;
    const at::Tensor whole = at::upsample_bilinear2d(images.to(at::kFloat), {rows, columns},
                                                     /*align_corners=*/false);
    const at::Tensor kept = whole.narrow(2, (rows - size) / 2, size).narrow(3, (columns - size) / 2, size);
    EXPECT_LT((kept - fitted).abs().max().item<float>(), 0.52f);
    EXPECT_TRUE(fit(images.contiguous(at::MemoryFormat::ChannelsLast), size).equal(fitted));
  }
}

// Enlarged as a whole it takes 245 MB.
TEST(Fit, GrowsALongImageInLittleMemory) {
  const at::Tensor line = random_bytes({1, 3, 1, 20000}, 4);
  EXPECT_LT(peak_bytes([&] { fit(line, 32); }), 1 << 20);
}

// Pixel (y, x) of the half is pixels 2y, 2y + 1 by 2x, 2x + 1, which the mean of areas takes back.
TEST(Fit, RepeatsWhatIsSmaller) {
  for (const auto& [height, width] :
       {std::pair<int64_t, int64_t>{8, 8}, {8, 11}, {5, 5}, {15, 30}, {13, 16}}) {
    SCOPED_TRACE(height);
    const at::Tensor images = random_bytes({2, 3, height, width}, 9);
    const at::Tensor fitted = fit_or_repeat(images, 16).contiguous(), half = fit(images, 8);
    ASSERT_EQ(fitted.sizes(), at::IntArrayRef({2, 3, 16, 16}));
    for (int64_t dy = 0; dy < 2; ++dy)
      for (int64_t dx = 0; dx < 2; ++dx)
        EXPECT_TRUE(fitted.slice(2, dy, 16, 2).slice(3, dx, 16, 2).equal(half));
    EXPECT_TRUE(fit(fitted, 8).equal(half));
  }
  const at::Tensor large = random_bytes({1, 3, 16, 20}, 9);
  EXPECT_TRUE(fit_or_repeat(large, 16).equal(fit(large, 16)));
}

// A single byte that differs shows.
TEST(IsRepeated, SaysWhetherAllBlocksAreFlat) {
  const at::Tensor image =
      random_bytes({2, 3, 4}, 3).repeat_interleave(2, 1).repeat_interleave(2, 2).contiguous();
  auto* pixels = image.data_ptr<uint8_t>();
  EXPECT_TRUE(is_repeated(pixels, 2, 6, 8));
  for (int64_t i = 0; i < image.numel(); ++i) {
    ++pixels[i];
    EXPECT_FALSE(is_repeated(pixels, 2, 6, 8)) << i;
    --pixels[i];
  }
  const at::Tensor flat = at::zeros({1, 3, 4}, at::kByte);
  EXPECT_FALSE(is_repeated(flat.data_ptr<uint8_t>(), 1, 3, 4));  // three rows are not blocks
}

TEST(Fit, KeepsConstantImagesAtEverySize) {
  for (const int value : {0, 1, 254, 255})
    for (int64_t size = 1; size < 12; ++size)
      EXPECT_TRUE(fit(at::full({1, 3, 5, 7}, value, at::kByte), size).eq(value).all().item<bool>());
}

// A byte of the mean by its definition: the parts of all source pixels under a pixel, in whole numbers.
int area_mean(const at::Tensor& plane, int64_t scaled_rows, int64_t y, int64_t scaled_columns, int64_t x) {
  const int64_t rows = plane.size(0), columns = plane.size(1);
  const auto common = [](int64_t pixel, int64_t length, int64_t source, int64_t scaled) {
    return std::max<int64_t>(
        0, std::min((pixel + 1) * length, (source + 1) * scaled) - std::max(pixel * length, source * scaled));
  };
  int64_t sum = rows * columns / 2;
  for (int64_t j = 0; j < rows; ++j)
    for (int64_t i = 0; i < columns; ++i)
      sum += common(y, rows, j, scaled_rows) * common(x, columns, i, scaled_columns) *
             plane[j][i].item<int64_t>();
  return static_cast<int>(sum / (rows * columns));
}

// As decoders write them: pixel by pixel, and rows that are longer than the picture. In the second case the
// weights under a pixel add up to more than float can hold exactly.
TEST(Fit, PixelByPixelAndByPlanesAreTheSameMeans) {
  for (const auto& [height, width, size] :
       {std::tuple<int64_t, int64_t, int64_t>{15, 20, 14}, {263, 269, 2}}) {
    const at::Tensor rows = random_bytes({height, width + 3, 3}, 1).narrow(1, 0, width);
    const at::Tensor images = rows.permute({2, 0, 1}).unsqueeze(0);
    const at::Tensor small = fit(images, size);
    EXPECT_TRUE(at::equal(small, fit(images.contiguous(), size)));
    const int64_t scaled = width * size / height;
    for (const auto& [y, x] : {std::pair<int64_t, int64_t>{0, 0}, {1, 1}, {size - 1, size - 1}})
      EXPECT_EQ(small[0][1][y][x].item<int>(),
                area_mean(images[0][1], size, y, scaled, x + (scaled - size) / 2));
  }
}

}  // namespace
}  // namespace poem
