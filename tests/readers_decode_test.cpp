#include "readers/decode.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "encode_images.h"
#include "expect_error.h"
#include "images/resize.h"
#include "poem/read.h"

namespace poem {
namespace {

// A ramp: smooth, so that JPEG keeps it within a few levels.
at::Tensor ramp(int64_t height, int64_t width, int64_t channels) {
  const at::Tensor y = at::arange(height).view({-1, 1, 1}), x = at::arange(width).view({1, -1, 1}),
                   c = at::arange(channels).view({1, 1, -1});
  return (y * 5 + x * 3 + c * 40 + 10).clamp(0, 255).to(at::kByte);
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

TEST(DecodePng, IsExactForEveryColourType) {
  for (const int64_t channels : {1, 2, 3, 4}) {
    const at::Tensor rows = random_bytes({5, 7, channels}, channels);
    const at::Tensor image = decode_image("a.png", encode_png(rows));
    ASSERT_EQ(image.sizes(), at::IntArrayRef({3, 5, 7}));
    ASSERT_TRUE(image.is_contiguous());
    // Grey repeats; alpha is dropped and leaves the colours as they are.
    const at::Tensor colours = channels < 3 ? rows.narrow(2, 0, 1).expand({5, 7, 3}) : rows.narrow(2, 0, 3);
    EXPECT_TRUE(image.permute({1, 2, 0}).equal(colours)) << channels;
  }
}

TEST(DecodePng, RefusesAnyTruncationAndDamage) {
  const std::string good = encode_png(random_bytes({9, 6, 3}, 1));
  for (size_t size = 0; size < good.size(); size += 3)
    expect_error([&] { decode_image("a.png", good.substr(0, size)); },
                 {"a.png", "cannot be decoded", "(replace the file)"});
  std::string damaged = good;
  damaged[good.size() / 2] ^= 0x10;
  expect_error([&] { decode_image("a.png", damaged); }, {"a.png", "cannot be decoded"});
}

TEST(DecodeJpeg, IsCloseForGreyAndRgb) {
  for (const int64_t channels : {1, 3}) {
    const at::Tensor rows = ramp(16, 24, channels);
    const at::Tensor image = decode_image("a.jpg", encode_jpeg(rows));
    ASSERT_EQ(image.sizes(), at::IntArrayRef({3, 16, 24}));
    EXPECT_LE(largest_difference(image.permute({1, 2, 0}), rows.expand({16, 24, 3})), 3);
  }
}

TEST(DecodeJpeg, ConvertsCmykOfBothConventions) {
  const at::Tensor inks = ramp(16, 16, 4), light = inks.to(at::kDouble), dark = 255 - light;
  const auto mix = [](const at::Tensor& t) { return t.narrow(2, 0, 3) * t.narrow(2, 3, 1) / 255; };
  const at::Tensor adobe = decode_image("a.jpg", encode_jpeg(inks, true)).permute({1, 2, 0});
  const at::Tensor plain = decode_image("a.jpg", encode_jpeg(inks, false)).permute({1, 2, 0});
  EXPECT_LE(largest_difference(adobe, mix(light)), 5);
  EXPECT_LE(largest_difference(plain, mix(dark)), 5);
}

TEST(DecodeJpeg, RefusesDataThatEndsEarly) {
  // Noise, so that the pixels take most of the file; libjpeg alone would fill the rest with grey.
  const std::string good = encode_jpeg(random_bytes({32, 32, 3}, 2));
  for (size_t size = 2; size < good.size() - 2; size += 97)
    expect_error([&] { decode_image("a.jpg", good.substr(0, size)); },
                 {"a.jpg", "cannot be decoded", "(replace the file)"});
  expect_error([&] { decode_image("a.jpg", good.substr(0, good.size() / 2) + "\xff\xd9"); },
               {"cannot be decoded"});
}

// Pixels of a photo's kind: smooth, with some structure at every scale.
at::Tensor waves(int64_t height, int64_t width) {
  const at::Tensor y = at::arange(height, at::kDouble).view({-1, 1, 1}),
                   x = at::arange(width, at::kDouble).view({1, -1, 1}),
                   c = at::arange(3, at::kDouble).view({1, 1, -1});
  return (128 + 60 * (y / 31 + c).sin() + 40 * (x / 17 - c).cos() + 20 * ((x + y) / 5).sin())
      .clamp(0, 255)
      .to(at::kByte);
}

// The mean of a window of the full image, computed in the simplest way.
at::Tensor mean_of_windows(const at::Tensor& planes, int64_t factor) {
  const int64_t height = planes.size(1) / factor, width = planes.size(2) / factor;
  return planes.to(at::kDouble).view({3, height, factor, width, factor}).mean(at::IntArrayRef{2, 4});
}

TEST(DecodeJpeg, OfASmallerSizeIsTheMeanOfTheFullImage) {
  const std::string file = encode_jpeg(waves(256, 256));
  const at::Tensor full = decode_image("a.jpg", file);
  for (const int64_t size : {128, 64, 32, 16}) {  // 16: more than libjpeg can shrink
    const at::Tensor small = decode_image("a.jpg", file, size);
    ASSERT_EQ(small.sizes(), at::IntArrayRef({3, size, size}));
    EXPECT_LE(largest_difference(small, mean_of_windows(full, 256 / size)), 6) << size;
  }
  EXPECT_TRUE(decode_image("a.jpg", file, 256).equal(full));
}

TEST(DecodeJpeg, IsNeverShrunkBelowTheSize) {
  for (const int64_t side : {63, 64, 65, 127, 128, 129, 255, 257}) {  // no resizing up after shrinking
    const std::string file = encode_jpeg(waves(side + 30, side));
    const at::Tensor small = decode_image("a.jpg", file, 64), full = decode_image("a.jpg", file);
    ASSERT_EQ(small.sizes(), at::IntArrayRef({3, 64, 64}));
    if (side >= 64) {
      // Both round the sides, so one may be shifted by a pixel or two of the original. The waves are steep.
      const at::Tensor exact = fit(full.unsqueeze(0), 64).squeeze(0);
      EXPECT_LE((small.to(at::kDouble) - exact.to(at::kDouble)).abs().mean().item<double>(), 6) << side;
    }
  }
}

TEST(DecodeJpeg, OfASmallerSizeRefusesDataThatEndsEarly) {
  const std::string good = encode_jpeg(random_bytes({64, 64, 3}, 2));
  for (size_t size = 2; size < good.size() - 2; size += 997)
    expect_error([&] { decode_image("a.jpg", good.substr(0, size), 16); }, {"a.jpg", "cannot be decoded"});
}

// A grey progressive JPEG in which all coefficients are 0: a scan of the means of the blocks and `more` scans
// that each refine one other coefficient by a bit. A scan of blocks costs next to nothing in the file.
std::string progressive_jpeg(int side, int more) {
  const auto word = [](int number) {
    return std::string{static_cast<char>(number >> 8), static_cast<char>(number)};
  };
  const auto segment = [&](char marker, const std::string& content) {
    return std::string{'\xff', marker} + word(static_cast<int>(content.size()) + 2) + content;
  };
  // Huffman codes of which only the code 0 stands for something.
  const auto table = [&](char id, char value) {
    return segment('\xc4', std::string{id, 1} + std::string(15, '\0') + value);
  };
  const auto scan = [&](int coefficient, int high, int low) {
    const std::string which{static_cast<char>(coefficient), static_cast<char>(coefficient),
                            static_cast<char>(high << 4 | low)};
    return segment('\xda', std::string("\1\1\0", 3) + which);
  };
  const int blocks = (side + 7) / 8 * ((side + 7) / 8), run = 1 << 14;  // of blocks that one code ends
  std::string file = "\xff\xd8" + segment('\xdb', '\0' + std::string(64, '\1')) +
                     segment('\xc2', "\x08" + word(side) + word(side) + std::string("\1\1\x11\0", 4)) +
                     table('\0', '\0') + table('\x10', '\xe0') + scan(0, 0, 0) +
                     std::string(static_cast<size_t>(blocks / 8 + 1), '\0');
  constexpr int kBits = 14;  // that a coefficient has
  for (int i = 0; i < more; ++i) {
    const int low = kBits - 1 - i % kBits;
    file += scan(1 + i / kBits, i % kBits == 0 ? 0 : low + 1, low);
    file += std::string(static_cast<size_t>(((blocks + run - 1) / run * 15 + 7) / 8), '\0');
  }
  return file + "\xff\xd9";
}

TEST(DecodeJpeg, LimitsPixelsBeforeItShrinks) {
  EXPECT_EQ(read_image("a.jpg", progressive_jpeg(64, 0), 8).sizes(), at::IntArrayRef({3, 8, 8}));
  expect_error([] { read_image("a.jpg", progressive_jpeg(56000, 0), 32); },
               {"a.jpg", "cannot be decoded: it claims 56000×56000 pixels"});
  constexpr uint64_t kMost = 7000 * 7000;
  EXPECT_EQ(read_image("a.jpg", progressive_jpeg(7000, 0), 32, kMost).size(1), 32);
  expect_error([] { read_image("a.jpg", progressive_jpeg(7001, 0), 32, kMost); },
               {"claims 7001×7001 pixels"});
}

TEST(DecodeJpeg, LimitsScans) {
  EXPECT_EQ(decode_image("a.jpg", progressive_jpeg(64, 99)).size(1), 64);
  expect_error([] { decode_image("a.jpg", progressive_jpeg(64, 100)); }, {"a.jpg", "more than 100 scans"});
  expect_error([] { decode_image("a.jpg", progressive_jpeg(7000, 63 * 14), 32); }, {"more than 100 scans"});
}

TEST(DecodeImage, GoesByContent) {
  const at::Tensor rows = random_bytes({4, 4, 3}, 3);
  EXPECT_TRUE(decode_image("png named.jpg", encode_png(rows)).permute({1, 2, 0}).equal(rows));
  expect_error([] { decode_image("a.png", ""); }, {"a.png", "empty"});
  expect_error([] { decode_image("a.png", "GIF89a"); }, {"a.png", "not a JPEG, PNG, WebP or BMP file"});
}

TEST(IsImageName, IgnoresCase) {
  for (const char* name : {"a.jpg", "b.JPEG", "c/d.PnG", "x.y.JPG", "e.webp", "f.Bmp"})
    EXPECT_TRUE(is_image_name(name)) << name;
  for (const char* name : {"jpg", ".png", "a.gif", "a.png.txt", ""})
    EXPECT_FALSE(is_image_name(name)) << name;
}

}  // namespace
}  // namespace poem
