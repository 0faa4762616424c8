// Images as the network takes them, some at a time.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>

#include "poem/images.h"

namespace poem {

constexpr int64_t kForwardImages = 500;  // images that go through a network at a time

// Calls use(pixels) for block after block, each n×C×size×size on the device; images of another size are
// resized. Shows a progress bar and ends on Ctrl-C.
void for_each_block(const ImageSet& images, int64_t size, const at::Device& device,
                    const std::function<void(const at::Tensor& pixels)>& use);

}  // namespace poem
