// Crops of 64×64 outliers for a network of 32×32: each through a filter that it draws, beside the area mean.
#include <ATen/ATen.h>

#include "compare.h"
#include "poem/crops.h"

namespace poem::bench {

POEM_BENCH(filters) {
  constexpr int64_t kImages = 2000;
  const ImageSet images{"noise", at::randint(256, {kImages, 3, 64, 64}, at::kByte), {}, {}};
  std::vector<Crop> crops;
  for (int64_t i = 0; i < kImages; ++i) crops.push_back({i, static_cast<uint64_t>(i)});
  Augmentation area, all;
  area.resize = all.resize = true;
  all.filters = {Filter::kArea,     Filter::kTriangle, Filter::kBicubic, Filter::kLanczos,
                 Filter::kGaussian, Filter::kNearest,  Filter::kPiece};
  compare(
      "2,000 crops of 64×64 outliers, seven filters / area mean",
      [&] { keep(cut(images, crops.data(), kImages, all)); },
      [&] { keep(cut(images, crops.data(), kImages, area)); }, 2);
}

}  // namespace poem::bench
