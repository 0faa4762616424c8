// Decodes one JPEG or PNG file held in memory.
//
//   at::Tensor pixels = decode_image("cat.jpg", read_file("cat.jpg"));
#pragma once
#include <ATen/core/Tensor.h>

#include <string>

namespace poem {

// uint8 3×H×W. The content decides between JPEG and PNG, not the name. Grey becomes RGB, 16 bits become 8, an
// alpha channel is dropped (not blended), CMYK is converted without a colour profile. Whatever cannot be
// decoded to the last row is an Error at `where`, also data that ends early; `remedy`: what helps then.
at::Tensor decode_image(const std::string& where, const std::string& bytes,
                        const std::string& remedy = "replace the file");

bool is_image_name(const std::string& path);  // .jpg, .jpeg or .png in any case

}  // namespace poem
