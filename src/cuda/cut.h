// Crops of images that lie on a GPU: the same pixels as those of cut() in poem/crops.h, without colour
// jitter.
//
//   cut({pixels, 3, 64, 64, /*resize=*/false}, places, 128, 32, out, stream);
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace poem::cuda {

struct CutImages {
  const uint8_t* pixels;  // N×C×H×W
  int channels, height, width;
  bool resize;  // to size × size, by area averaging, before the crops are cut
};

// places: count × 4, each image, top, left and whether mirrored. out: count × C × size × size.
void cut(const CutImages& images, const int32_t* places, int64_t count, int size, uint8_t* out,
         cudaStream_t stream);

}  // namespace poem::cuda
