// The formats behind decode_image(), one file each. A format turns the bytes of a file into rows of pixels
// and throws Damage for what it cannot decode to the last row.
//
//   const DecodedImage image = decode_png(bytes);
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace poem {

struct DecodedImage {
  at::Tensor rows;      // uint8 H×W×3
  int orientation = 1;  // how to turn it (readers/exif.h)
};

// Why bytes are not an image.
struct Damage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The shorter side is at least `size`: libjpeg skips detail that resizing to `size` (0: none) would average
// away.
DecodedImage decode_jpeg(const std::string& bytes, int64_t size);
DecodedImage decode_png(const std::string& bytes);
DecodedImage decode_webp(const std::string& bytes);
DecodedImage decode_bmp(const std::string& bytes);

// Called before memory is allocated, because a damaged header can claim any size. Throws Damage if the size
// is beyond that of any image, or if the threads together lack the memory for images of this size. `bytes` is
// what decoding one takes; 0: that of all its pixels, decoded and turned upright.
void check_dimensions(uint64_t width, uint64_t height, uint64_t bytes = 0);

}  // namespace poem
