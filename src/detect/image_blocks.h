// Images as the network takes them, some at a time.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>

#include "poem/images.h"

namespace poem {

constexpr int64_t kForwardImages = 500;  // images that go through a network at a time

// Some images from `first` on, n×C×size×size on the CPU. Images of another size are resized as read_images()
// resizes them, so an image is the same from an array and from a file. float32 points stay as they are.
at::Tensor network_input(const ImageSet& images, int64_t first, int64_t count, int64_t size);

// Calls use(pixels) for block after block of network_input(), on the device. Shows a progress bar and ends on
// Ctrl-C.
void for_each_block(const ImageSet& images, int64_t size, const at::Device& device,
                    const std::function<void(const at::Tensor& pixels)>& use);

}  // namespace poem
