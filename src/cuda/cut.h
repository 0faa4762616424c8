// Crops of images that lie on a GPU: the same pixels as those of cut() in poem/crops.h, without colour
// jitter.
//
//   cut({pixels, 3, 64, 64, /*resize=*/false}, /*filters=*/{}, places, 128, 32, out, stream);
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace poem::cuda {

struct CutImages {
  const uint8_t* pixels;  // N×C×H×W
  int channels, height, width;
  bool resize;  // to size × size before the crops are cut: by area averaging, if `filters` does not say else
};

// The tables of Filters (images/filters.h), on the GPU.
struct CutFilters {
  const int32_t* drawn = nullptr;    // count × 2: Filters::Drawn of each crop; null: −1 for all
  const int32_t* taps = nullptr;     // Filters::Taps, 3 numbers each
  const int32_t* weights = nullptr;  // of `bits` bits
  int bits = 0;
};

// places: count × 4, each image, top, left and whether mirrored. out: count × C × size × size.
void cut(const CutImages& images, const CutFilters& filters, const int32_t* places, int64_t count, int size,
         uint8_t* out, cudaStream_t stream);

}  // namespace poem::cuda
