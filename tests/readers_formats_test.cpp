// BMP and WebP files.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>

#include "encode_images.h"
#include "expect_error.h"
#include "poem/random.h"
#include "readers/decode.h"

#ifdef POEM_HAS_WEBP
#include <webp/encode.h>
#endif

namespace poem {
namespace {

template <class Number>
std::string bytes_of(Number number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

struct Bitmap {
  int32_t width, height;  // below 0: the top row comes first
  uint16_t bits;
  uint32_t header = 40, compression = 0, colours = 0;  // `colours` as the header states it
  std::string between = "";                            // header and pixels: masks, palette
  std::string pixels = "";                             // rows as they are stored

  std::string file() const {
    const std::string info = bytes_of(header) + bytes_of(width) + bytes_of(height) + bytes_of<uint16_t>(1) +
                             bytes_of(bits) + bytes_of(compression) + std::string(12, '\0') +
                             bytes_of(colours) + std::string(4, '\0');
    const auto start = static_cast<uint32_t>(14 + info.size() + between.size());
    return "BM" + bytes_of<uint32_t>(static_cast<uint32_t>(start + pixels.size())) + std::string(4, '\0') +
           bytes_of(start) + info + between + pixels;
  }
};

at::Tensor rows(const std::string& file) { return decode_image("a.bmp", file).permute({1, 2, 0}); }

at::Tensor tensor_of(const std::vector<int>& values, at::IntArrayRef shape) {
  return at::tensor(values, at::kInt).to(at::kByte).view(shape);
}

// Two rows of three pixels, blue first, the lower row first, each padded to 12 bytes.
const std::string kRows24(
    "\x03\x02\x01\x06\x05\x04\x09\x08\x07\0\0\0\x0c\x0b\x0a\x0f\x0e\x0d\x12\x11\x10\0\0\0", 24);

TEST(DecodeBmp, ReadsTrueColour) {
  const at::Tensor lower = tensor_of({1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 3, 3}),
                   upper = tensor_of({10, 11, 12, 13, 14, 15, 16, 17, 18}, {1, 3, 3});
  Bitmap bitmap{3, 2, 24};
  bitmap.pixels = kRows24;
  EXPECT_TRUE(rows(bitmap.file()).equal(at::cat({upper, lower})));
  bitmap.height = -2;
  EXPECT_TRUE(rows(bitmap.file()).equal(at::cat({lower, upper})));
  EXPECT_TRUE(rows(bitmap.file() + "what follows is not looked at").equal(at::cat({lower, upper})));

  // 32 bits, with alpha, which is dropped: plain, or with the masks that every program writes.
  bitmap = {1, 2, 32};
  bitmap.pixels = "\x03\x02\x01\x50\x06\x05\x04\x60";
  const at::Tensor expected = tensor_of({4, 5, 6, 1, 2, 3}, {2, 1, 3});
  EXPECT_TRUE(rows(bitmap.file()).equal(expected));
  bitmap.compression = 3;
  bitmap.between = bytes_of<uint32_t>(0xff0000) + bytes_of<uint32_t>(0xff00) + bytes_of<uint32_t>(0xff);
  EXPECT_TRUE(rows(bitmap.file()).equal(expected));
  bitmap.header = 124;  // version 5 has them in its header
  bitmap.between.resize(84, '\0');
  EXPECT_TRUE(rows(bitmap.file()).equal(expected));
  bitmap.between[0] = 1;
  expect_error([&] { rows(bitmap.file()); }, {"a.bmp", "rare kind (colour masks)", "PNG"});
}

TEST(DecodeBmp, ReadsPalettes) {
  const std::string black("\0\0\0\0", 4), red("\0\0\xff\0", 4), sand("\x01\x02\x03\0", 4);
  Bitmap bitmap{3, 1, 8};
  bitmap.colours = 3;
  bitmap.between = black + red + sand;
  bitmap.pixels = std::string("\2\0\1\0", 4);
  const at::Tensor expected = tensor_of({3, 2, 1, 0, 0, 0, 255, 0, 0}, {1, 3, 3});
  EXPECT_TRUE(rows(bitmap.file()).equal(expected));
  bitmap.bits = 4;
  bitmap.pixels = std::string("\x20\x10\0\0", 4);
  EXPECT_TRUE(rows(bitmap.file()).equal(expected));
  bitmap.pixels[1] = '\x30';
  expect_error([&] { rows(bitmap.file()); }, {"a.bmp", "palette lacks"});
  bitmap = {10, 1, 1};  // no number of colours: as many as there can be
  bitmap.between = black + red;
  bitmap.pixels = std::string("\x81\x40\0\0", 4);
  const at::Tensor image = rows(bitmap.file()).select(2, 0);
  EXPECT_TRUE(image.equal(tensor_of({255, 0, 0, 0, 0, 0, 0, 255, 0, 255}, {1, 10})));
}

TEST(DecodeBmp, RefusesWhatItCannotRead) {
  Bitmap good{3, 2, 24};
  good.pixels = kRows24;
  const std::string file = good.file();
  for (size_t size = 0; size < file.size(); ++size)
    expect_error([&] { rows(file.substr(0, size)); }, {"a.bmp", "cannot be decoded"});
  const auto expect_refused = [&](void (*change)(Bitmap&), const std::string& words) {
    Bitmap bad = good;
    change(bad);
    expect_error([&] { rows(bad.file()); }, {"a.bmp", words});
  };
  expect_refused([](Bitmap& b) { b.header = 12; }, "header of 12 bytes");
  expect_refused([](Bitmap& b) { b.header = 0xffffffff; }, "ends early");
  expect_refused([](Bitmap& b) { b.bits = 16; }, "rare kind (16 bits");
  expect_refused([](Bitmap& b) { b.compression = 1; }, "compression 1");
  expect_refused([](Bitmap& b) { b.width = 0; }, "2×0 pixels");
  expect_refused([](Bitmap& b) { b.width = -3; }, "2×0 pixels");
  expect_refused([](Bitmap& b) { b.height = INT32_MIN; }, "2147483648×3 pixels");
  expect_refused([](Bitmap& b) { b.width = b.height = 16000; }, "ends early");
  expect_refused([](Bitmap& b) { b.width = b.height = 2000000000; }, "claims 2000000000×2000000000 pixels");
  expect_refused([](Bitmap& b) { b.bits = 8; }, "palette is damaged");
  expect_refused(
      [](Bitmap& b) {
        b.bits = 8;
        b.colours = 257;
      },
      "palette is damaged");
}

TEST(DecodeBmp, SurvivesAnyDamageOfItsHeader) {
  Bitmap palette{3, 2, 8};
  palette.colours = 2;
  palette.between = "abcdefgh";
  palette.pixels = std::string("\1\0\1\0\1\1\0\0", 8);
  Bitmap colours{3, 2, 24};
  colours.pixels = kRows24;
  Stream stream(1, "damage");
  for (const std::string& good : {palette.file(), colours.file()}) {
    for (int i = 0; i < 20000; ++i) {
      std::string bad = good;
      for (int flips = 0; flips < 3; ++flips)
        bad[2 + stream.below(52)] = static_cast<char>(stream.below(256));
      try {
        EXPECT_EQ(rows(bad).size(2), 3);
      } catch (const Error&) {
      }
    }
  }
}

#ifdef POEM_HAS_WEBP

std::string encode_webp(const at::Tensor& rows) {  // lossless
  const auto height = static_cast<int>(rows.size(0)), width = static_cast<int>(rows.size(1)),
             channels = static_cast<int>(rows.size(2));
  uint8_t* memory = nullptr;
  const size_t size = (channels == 4 ? WebPEncodeLosslessRGBA : WebPEncodeLosslessRGB)(
      rows.data_ptr<uint8_t>(), width, height, width * channels, &memory);
  const std::string file(reinterpret_cast<char*>(memory), size);
  WebPFree(memory);
  return file;
}

TEST(DecodeWebp, IsExactWithoutLossAndCloseWithIt) {
  const at::Tensor image = random_bytes({6, 9, 3}, 1);
  EXPECT_TRUE(decode_image("a.webp", encode_webp(image)).permute({1, 2, 0}).equal(image));
  at::Tensor transparent = random_bytes({6, 9, 4}, 2);
  transparent.select(2, 3).clamp_min_(1);  // the encoder may change the colour of what cannot be seen
  EXPECT_TRUE(decode_image("a.jpg", encode_webp(transparent))
                  .permute({1, 2, 0})
                  .equal(transparent.narrow(2, 0, 3)));  // alpha is dropped, not blended
  const at::Tensor grey = at::full({16, 16, 3}, 77, at::kByte);
  uint8_t* memory = nullptr;
  const size_t size = WebPEncodeRGB(grey.data_ptr<uint8_t>(), 16, 16, 48, 90, &memory);
  const at::Tensor lossy = decode_image("a.webp", std::string(reinterpret_cast<char*>(memory), size));
  WebPFree(memory);
  EXPECT_LE((lossy.to(at::kInt) - 77).abs().max().item<int>(), 2);
}

TEST(DecodeWebp, RefusesWhatItCannotRead) {
  const std::string good = encode_webp(random_bytes({9, 6, 3}, 1));
  for (size_t size = 0; size < good.size(); ++size)
    expect_error([&] { decode_image("a.webp", good.substr(0, size)); },
                 {"a.webp", "cannot be decoded", "(replace the file)"});
  const std::string header = "VP8X" + bytes_of<uint32_t>(10) + bytes_of<uint32_t>(2);  // an animation
  const std::string canvas("\x05\0\0\x08\0\0", 6), content = "WEBP" + header + canvas + good.substr(12);
  expect_error(
      [&] { decode_image("a.webp", "RIFF" + bytes_of(static_cast<uint32_t>(content.size())) + content); },
      {"a.webp", "it is an animation"});
  Stream stream(1, "damage");
  for (int i = 0; i < 2000; ++i) {
    std::string bad = good;
    for (int flips = 0; flips < 3; ++flips)
      bad[stream.below(bad.size())] = static_cast<char>(stream.below(256));
    try {
      EXPECT_EQ(decode_image("a.webp", bad).size(0), 3);
    } catch (const Error&) {
    }
  }
}

#else

TEST(DecodeWebp, NamesTheLibraryThatIsMissing) {
  expect_error([&] { decode_image("a.webp", std::string("RIFF\0\0\0\0WEBPVP8 ", 16)); },
               {"a.webp", "libwebp"});
}

#endif

}  // namespace
}  // namespace poem
