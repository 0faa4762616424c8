// Encodes one image as a PNG file in memory.
//
//   write_file("a.png", encode_png(pixels.permute({1, 2, 0})));
#pragma once
#include <ATen/core/Tensor.h>

#include <string>

namespace poem {

// uint8 H×W×C with 1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGBA) channels. The same pixels give the same
// bytes.
std::string encode_png(const at::Tensor& rows);

}  // namespace poem
