#include "readers/decode.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/memory.h"
#include "images/resize.h"
#include "poem/error.h"
#include "poem/read.h"
#include "readers/decode_formats.h"
#include "readers/exif.h"
#include "readers/reader_tools.h"

namespace poem {
namespace {

DecodedImage decode(const std::string& bytes, int64_t size) {
  const std::string_view start(bytes.data(), std::min<size_t>(bytes.size(), 12));
  if (start.substr(0, 2) == "\xff\xd8") return decode_jpeg(bytes, size);
  if (start.substr(0, 4) == "\x89PNG") return decode_png(bytes);
  if (start.substr(0, 4) == "RIFF" && start.substr(std::min<size_t>(8, start.size())) == "WEBP")
    return decode_webp(bytes);
  if (start.substr(0, 2) == "BM") return decode_bmp(bytes);
  throw Damage(bytes.empty() ? "it is empty" : "it is not a JPEG, PNG, WebP or BMP file");
}

constexpr uint64_t kMostPixels = uint64_t{1} << 28;
thread_local uint64_t most_pixels_here = kMostPixels;  // of the image that this thread decodes

struct PixelLimit {
  explicit PixelLimit(uint64_t most) { most_pixels_here = most; }
  ~PixelLimit() { most_pixels_here = kMostPixels; }
};

}  // namespace

void check_dimensions(uint64_t width, uint64_t height, uint64_t bytes) {
  constexpr uint64_t kFewBytes = uint64_t{96} << 20;
  if (width == 0 || height == 0 || width > most_pixels_here || height > most_pixels_here / width)
    throw Damage(fmt::format("it claims {}×{} pixels", height, width));
  constexpr uint64_t kPixelBytes = 6;
  if (bytes == 0) bytes = kPixelBytes * width * height;
  const uint64_t all = bytes * static_cast<uint64_t>(at::get_num_threads());
  if (bytes > kFewBytes && all > available_memory())
    throw Damage(fmt::format("it claims {}×{} pixels, for which {} threads need {} MiB of memory", height,
                             width, at::get_num_threads(), all >> 20));
}

at::Tensor decode_image(const std::string& where, const std::string& bytes, int64_t size,
                        const std::string& remedy, bool repeat_small) {
  try {
    const DecodedImage image = decode(bytes, size);
    const at::Tensor upright = turn_upright(image.rows, image.orientation).permute({2, 0, 1}).unsqueeze(0);
    return (repeat_small ? fit_or_repeat(upright, size) : fit(upright, size)).squeeze(0).contiguous();
  } catch (const Damage& damage) {
    throw Error(where, std::string("cannot be decoded: ") + damage.what(), remedy);
  }
}

at::Tensor read_image(const std::string& where, const std::string& bytes, int64_t size,
                      uint64_t most_pixels) {
  const PixelLimit limit(most_pixels > 0 ? most_pixels : kMostPixels);
  return decode_image(where, bytes, size);
}

bool is_image_name(const std::string& path) {
  const auto& known = image_extensions();
  return std::any_of(known.begin(), known.end(),
                     [&](const std::string& extension) { return has_extension(path, extension); });
}

const std::vector<std::string>& image_extensions() {
  static const std::vector<std::string> known = {".jpg", ".jpeg", ".png", ".webp", ".bmp"};
  return known;
}

}  // namespace poem
