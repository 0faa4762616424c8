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

// What makes bytes no image.
struct Damage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

DecodedImage decode_jpeg(const std::string& bytes);
DecodedImage decode_png(const std::string& bytes);
DecodedImage decode_webp(const std::string& bytes);
DecodedImage decode_bmp(const std::string& bytes);

// Before memory is asked for: a damaged header can claim any size. Damage if nothing an image set holds comes
// near this one, or if all threads together have no room for images of it.
void check_dimensions(uint64_t width, uint64_t height);

}  // namespace poem
