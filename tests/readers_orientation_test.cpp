// The EXIF orientation of every format, in both byte orders, and damaged EXIF blocks.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "encode_images.h"
#include "poem/random.h"
#include "poem/read.h"
#include "readers/decode.h"
#include "readers/exif.h"
#include "temporary_folder.h"

#ifdef POEM_HAS_WEBP
#include <webp/encode.h>
#endif

namespace poem {
namespace {

std::string number(uint64_t value, int bytes, bool little) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * (little ? i : bytes - 1 - i) & 0xff);
  return text;
}

constexpr int kShort = 3;  // the type that the standard asks for

// A TIFF file of one directory: the maker's name, then the orientation, as a value of this type and size.
std::string exif(int orientation, bool little, int type = kShort, int bytes = 2) {
  const auto n = [&](uint64_t value, int size) { return number(value, size, little); };
  return (little ? "II" : "MM") + n(42, 2) + n(8, 4) + n(2, 2) +  //
         n(0x010f, 2) + n(2, 2) + n(4, 4) + "abc" + '\0' +        //
         n(0x0112, 2) + n(type, 2) + n(1, 4) + n(orientation, bytes) + n(0, 4 - bytes) + n(0, 4);
}

std::string jpeg_with(const std::string& jpeg, const std::string& block) {
  const std::string content = std::string("Exif\0\0", 6) + block;
  const std::string xmp = "http://ns.adobe.com/xap/1.0/";  // has the same marker, and often comes first
  return jpeg.substr(0, 2) + "\xff\xe1" + number(xmp.size() + 2, 2, false) + xmp +  //
         "\xff\xe1" + number(content.size() + 2, 2, false) + content + jpeg.substr(2);
}

std::string png_chunk(const std::string& content) {
  const std::string chunk = "eXIf" + content;
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(chunk.data()), static_cast<uInt>(chunk.size()));
  return number(content.size(), 4, false) + chunk + number(sum, 4, false);
}

std::string png_with(const std::string& png, const std::string& block) {
  constexpr size_t kHeaderEnd = 8 + 25;  // signature and IHDR
  return png.substr(0, kHeaderEnd) + png_chunk(block) + png.substr(kHeaderEnd);
}

std::string png_with_last(const std::string& png, const std::string& block) {  // behind the pixels
  return png.substr(0, png.size() - 12) + png_chunk(block) + png.substr(png.size() - 12);
}

// By the definition of the tag: where row 0 and column 0 of what is stored are to be seen.
at::Tensor upright(const at::Tensor& stored, int orientation) {
  const int64_t height = stored.size(1), width = stored.size(2);
  const bool turned = orientation > 4;
  at::Tensor seen = at::empty({3, turned ? width : height, turned ? height : width}, at::kByte);
  for (int64_t r = 0; r < height; ++r) {
    for (int64_t c = 0; c < width; ++c) {
      const int64_t places[8][2] = {
          {r, c}, {r, width - 1 - c},  {height - 1 - r, width - 1 - c}, {height - 1 - r, c},
          {c, r}, {c, height - 1 - r}, {width - 1 - c, height - 1 - r}, {width - 1 - c, r}};
      const auto [y, x] = places[orientation - 1];
      seen.select(1, y).select(1, x).copy_(stored.select(1, r).select(1, c));
    }
  }
  return seen;
}

using WithExif = std::string (*)(const std::string& file, const std::string& block);

void expect_all_orientations(const std::string& file, WithExif with) {
  const at::Tensor stored = decode_image("a", file);
  for (const bool little : {false, true}) {
    for (int orientation = 1; orientation <= 8; ++orientation) {
      const at::Tensor image = decode_image("a", with(file, exif(orientation, little)));
      EXPECT_TRUE(image.is_contiguous());
      EXPECT_TRUE(image.equal(upright(stored, orientation))) << orientation << little;
    }
    for (const int orientation : {0, 9, 65535})
      EXPECT_TRUE(decode_image("a", with(file, exif(orientation, little))).equal(stored)) << orientation;
  }
}

// Whatever the block holds, the pixels are decoded; what cannot be understood turns nothing.
void expect_damage_is_ignored(const std::string& file, WithExif with) {
  const at::Tensor stored = decode_image("a", file);
  const std::string good = exif(6, true);
  for (const std::string& block : {std::string(), std::string("II"), std::string(40, '\xff'),
                                   good.substr(0, good.size() - 7), good.substr(0, 9)})
    EXPECT_TRUE(decode_image("a", with(file, block)).equal(stored)) << block.size();
}

TEST(Orientation, OfJpeg) {
  const std::string file = encode_jpeg(random_bytes({4, 7, 3}, 1));
  expect_all_orientations(file, jpeg_with);
  expect_damage_is_ignored(file, jpeg_with);
}

TEST(Orientation, OfPng) {
  const std::string file = encode_png(random_bytes({4, 7, 3}, 1));
  for (const WithExif with : {png_with, png_with_last}) {
    expect_all_orientations(file, with);
    expect_damage_is_ignored(file, with);
  }
}

#ifdef POEM_HAS_WEBP

std::string webp_chunk(const std::string& name, const std::string& content) {
  return name + number(content.size(), 4, true) + content + std::string(content.size() % 2, '\0');
}

// A simple file of 7 × 4 pixels as one with metadata.
std::string webp_with(const std::string& webp, const std::string& block) {
  const std::string content =
      "WEBP" +
      webp_chunk("VP8X", number(8, 1, true) + number(0, 3, true) + number(6, 3, true) + number(3, 3, true)) +
      webp.substr(12) + webp_chunk("EXIF", block);
  return "RIFF" + number(content.size(), 4, true) + content;
}

TEST(Orientation, OfWebp) {
  const at::Tensor rows = random_bytes({4, 7, 3}, 1);
  uint8_t* memory = nullptr;
  const size_t size = WebPEncodeLosslessRGB(rows.data_ptr<uint8_t>(), 7, 4, 21, &memory);
  const std::string file(reinterpret_cast<char*>(memory), size);
  WebPFree(memory);
  expect_all_orientations(file, webp_with);
  expect_damage_is_ignored(file, webp_with);
}

#endif

TEST(Orientation, OfFilesInFolders) {
  TemporaryFolder folder;
  const std::string file = encode_png(random_bytes({4, 7, 3}, 1));
  folder.put("a/1.png", png_with(file, exif(6, true)));
  folder.put("b/2.png", png_with(file, exif(8, false)));
  const ImageSet set = read_images(folder.path());
  EXPECT_TRUE(set.pixels[0].equal(upright(decode_image("a", file), 6)));
  EXPECT_TRUE(set.pixels[1].equal(upright(decode_image("a", file), 8)));
}

// Some cameras and editors store another type of integer than SHORT.
TEST(ExifOrientation, OfAnyTypeOfInteger) {
  constexpr int kTypes[][2] = {{1, 1}, {3, 2}, {4, 4}, {6, 1}, {8, 2}, {9, 4}};  // and their bytes
  for (const bool little : {false, true}) {
    for (const auto& [type, bytes] : kTypes) {
      for (int orientation = 1; orientation <= 8; ++orientation)
        EXPECT_EQ(exif_orientation(exif(orientation, little, type, bytes)), orientation) << type << little;
      EXPECT_EQ(exif_orientation(exif(0xf6, little, type, bytes)), 1) << type << little;
    }
    EXPECT_EQ(exif_orientation(exif(0x10006, little, 4, 4)), 1);  // no 6, although half of it is one
    for (const int type : {0, 2, 5, 7, 10, 11, 12, 13})           // no integers
      EXPECT_EQ(exif_orientation(exif(6, little, type, 4)), 1) << type << little;
  }
}

TEST(ExifOrientation, SurvivesAnyDamage) {
  Stream stream(1, "damage");
  for (const bool little : {false, true}) {
    const std::string good = exif(6, little);
    EXPECT_EQ(exif_orientation(good), 6);
    EXPECT_EQ(exif_orientation(std::string("Exif\0\0", 6) + good), 6);
    for (size_t size = 0; size < good.size() - 6; ++size)
      EXPECT_EQ(exif_orientation(good.substr(0, size)), 1);
    const size_t directory = 4, count = 8, type = 24, number_of_values = 26;
    for (const size_t offset : {directory, count, type, number_of_values}) {
      std::string bad = good;
      bad[offset] = bad[offset + 1] = '\xff';
      const int orientation = exif_orientation(bad);
      EXPECT_TRUE(orientation == 1 || (offset == count && orientation == 6)) << offset;
    }
    for (int i = 0; i < 20000; ++i) {
      std::string bad = good;
      for (int flips = 0; flips < 3; ++flips)
        bad[stream.below(bad.size())] = static_cast<char>(stream.below(256));
      const int orientation = exif_orientation(bad);
      EXPECT_TRUE(orientation >= 1 && orientation <= 8);
    }
  }
}

}  // namespace
}  // namespace poem
