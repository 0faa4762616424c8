// Windows bitmaps as programs write them: uncompressed, 24 or 32 bits per pixel, or 1, 4 or 8 with a palette.
// Written by hand, as the packaged readers either accept truncated files (stb_image) or depend on a whole
// image-processing library.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "readers/decode_formats.h"

namespace poem {
namespace {

constexpr size_t kFileHeader = 14, kInfoHeader = 40;
constexpr uint32_t kPlain = 0, kMasks = 3;  // of `compression`

template <class Number>
Number number_at(const std::string& bytes, size_t offset) {  // little-endian, as the machines poem runs on
  if (bytes.size() < offset + sizeof(Number)) throw Damage("it ends early");
  Number number;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

struct Layout {
  int64_t width, height;
  bool bottom_up;
  int64_t bits;              // per pixel
  size_t pixels, row_bytes;  // where the pixels start; rows are padded to four bytes
  size_t palette, colours;   // entries of four bytes: blue, green, red, unused
};

// 32 bits with masks are blue, green, red and alpha in all that programs write today.
void check_masks(const std::string& bytes) {
  constexpr uint32_t kUsual[] = {0xff0000, 0xff00, 0xff};  // red, green, blue
  for (size_t i = 0; i < 3; ++i) {
    if (number_at<uint32_t>(bytes, kFileHeader + kInfoHeader + 4 * i) != kUsual[i])
      throw Damage("it is a BMP of a rare kind (colour masks): convert it to PNG");
  }
}

Layout read_layout(const std::string& bytes) {
  const auto header = number_at<uint32_t>(bytes, kFileHeader);
  if (header < kInfoHeader)
    throw Damage(fmt::format("it is a BMP of a rare kind (header of {} bytes): convert it to PNG", header));
  const auto width = number_at<int32_t>(bytes, 18), height = number_at<int32_t>(bytes, 22);
  const auto bits = number_at<uint16_t>(bytes, 28);
  const auto compression = number_at<uint32_t>(bytes, 30);
  const bool palette = bits == 1 || bits == 4 || bits == 8;
  if ((!palette && bits != 24 && bits != 32) ||
      (compression != kPlain && !(compression == kMasks && bits == 32)))
    throw Damage(fmt::format("it is a BMP of a rare kind ({} bits, compression {}): convert it to PNG", bits,
                             compression));
  if (compression == kMasks) check_masks(bytes);
  Layout layout{width, std::abs(int64_t{height}), height > 0, bits, number_at<uint32_t>(bytes, 10), 0, 0, 0};
  check_dimensions(static_cast<uint64_t>(std::max(width, 0)), static_cast<uint64_t>(layout.height));
  layout.row_bytes = (static_cast<size_t>(width) * bits + 31) / 32 * 4;
  if (palette) {
    const auto used = number_at<uint32_t>(bytes, 46);
    layout.palette = kFileHeader + header;
    layout.colours = used == 0 ? size_t{1} << bits : used;
    if (layout.colours > size_t{1} << bits || layout.palette + 4 * layout.colours > bytes.size())
      throw Damage("its palette is damaged");
  }
  if (layout.pixels < kFileHeader + header || layout.pixels > bytes.size() ||
      (bytes.size() - layout.pixels) / layout.row_bytes < static_cast<size_t>(layout.height))
    throw Damage("it ends early");
  return layout;
}

}  // namespace

DecodedImage decode_bmp(const std::string& bytes) {
  const Layout layout = read_layout(bytes);
  const auto* file = reinterpret_cast<const uint8_t*>(bytes.data());
  const at::Tensor rows = at::empty({layout.height, layout.width, 3}, at::kByte);
  auto* out = rows.data_ptr<uint8_t>();
  for (int64_t y = 0; y < layout.height; ++y) {
    const int64_t stored = layout.bottom_up ? layout.height - 1 - y : y;
    const uint8_t* row = file + layout.pixels + static_cast<size_t>(stored) * layout.row_bytes;
    for (int64_t x = 0; x < layout.width; ++x, out += 3) {
      const int64_t bit = x * layout.bits;
      const uint8_t* colour = row + bit / 8;
      if (layout.colours > 0) {
        const auto index =
            static_cast<size_t>(*colour >> (8 - layout.bits - bit % 8)) & ((size_t{1} << layout.bits) - 1);
        if (index >= layout.colours) throw Damage("a pixel has a colour that its palette lacks");
        colour = file + layout.palette + 4 * index;
      }
      std::reverse_copy(colour, colour + 3, out);
    }
  }
  return {rows};
}

}  // namespace poem
