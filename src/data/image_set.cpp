#include "data/image_set.h"

#include <fmt/format.h>

#include "core/error.h"

namespace poem {

void check_channels(const ImageSet& images, int64_t channels) {
  if (images.channels() == channels) return;
  throw Error(images.name, fmt::format("has {} channels, the network takes {}", images.channels(), channels),
              "convert the images, or train with network.mean and network.std of one number a channel");
}

}  // namespace poem
