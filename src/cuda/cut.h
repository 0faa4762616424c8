// Crops out of images that lie on a GPU: the same pixels as cut() of data/augment.h gives, without colour
// jitter.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace poem::cuda {

struct CutImages {
  const uint8_t* pixels;  // N×C×H×W
  int channels, height, width;
  bool resize;  // to size×size by area averaging before cutting
};

// places: count × 4 as crop_places() has them. out: count × C × size × size.
void cut(const CutImages& images, const int32_t* places, int64_t count, int size, uint8_t* out,
         cudaStream_t stream);

}  // namespace poem::cuda
