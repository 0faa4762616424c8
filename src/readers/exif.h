// How an image is to be turned, as cameras say in the EXIF block of its file.
//
//   at::Tensor upright = turn_upright(rows, exif_orientation(block));
#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>

namespace poem {

// 1 … 8 as EXIF numbers them. `block` is a TIFF file of either byte order, with or without "Exif\0\0" before
// it. A block that is damaged or says nothing of it: 1, upright already.
int exif_orientation(std::string_view block);

// H×W×C as stored → as it is meant to be seen, which for 5 … 8 is W×H×C. A view.
at::Tensor turn_upright(const at::Tensor& rows, int orientation);

}  // namespace poem
