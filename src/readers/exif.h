// How to turn an image upright, as its camera says in the EXIF block of the file.
//
//   at::Tensor upright = turn_upright(rows, exif_orientation(block));
#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>

namespace poem {

// 1 … 8 as EXIF numbers them. `block` is a TIFF file of either byte order, with or without "Exif\0\0" before
// it. The number may have any type of integer, since some programs do not write the SHORT that the standard
// asks for. A block that is damaged or has no orientation: 1, already upright.
int exif_orientation(std::string_view block);

// H×W×C as stored → as it is meant to be seen, which for 5 … 8 is W×H×C. A view.
at::Tensor turn_upright(const at::Tensor& rows, int orientation);

}  // namespace poem
