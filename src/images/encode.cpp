#include "images/encode.h"

#include <ATen/ATen.h>
#include <png.h>

#include <stdexcept>

namespace poem {

std::string encode_png(const at::Tensor& rows) {
  constexpr png_uint_32 kFormats[] = {PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB, PNG_FORMAT_RGBA};
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(rows.size(1));
  image.height = static_cast<png_uint_32>(rows.size(0));
  image.format = kFormats[rows.size(2) - 1];
  const at::Tensor plain = rows.contiguous();
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t size = bytes.size();
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, plain.data_ptr(), 0, nullptr) == 0)
    throw std::runtime_error(image.message);
  bytes.resize(size);
  return bytes;
}

}  // namespace poem
