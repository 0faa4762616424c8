// Decodes one JPEG, PNG, WebP or BMP file held in memory.
//
//   at::Tensor pixels = decode_image("cat.jpg", read_file("cat.jpg"), /*size=*/32);
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace poem {

// uint8 3×size×size, as fit() or, with `repeat_small`, fit_or_repeat() makes it (images/resize.h), or 3×H×W
// if `size` is 0; turned as the file's EXIF orientation says. The content decides on the format, not the
// name. Grey becomes RGB, 16 bits become 8, an alpha channel is dropped (not blended), CMYK is converted
// without a colour profile. A file that cannot be decoded to the last row, for example a truncated one, is an
// Error at `where` with this remedy.
at::Tensor decode_image(const std::string& where, const std::string& bytes, int64_t size = 0,
                        const std::string& remedy = "replace the file", bool repeat_small = false);

const std::vector<std::string>& image_extensions();  // ".jpg", …
bool is_image_name(const std::string& path);         // has one of these extensions, in lower or upper case

}  // namespace poem
