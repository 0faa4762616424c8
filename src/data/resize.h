// Brings images to one square size.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace poem {

// uint8 n×C×H×W → n×C×size×size: the shorter side becomes `size` (shrinking averages areas, growing is
// bilinear), then the centre is cut out. size 0, or images that have it already: returned as they are.
at::Tensor fit(const at::Tensor& images, int64_t size);

}  // namespace poem
