// What an epoch reads from disk.
//
//   const std::vector<OutlierSource> sources = outlier_sources(config, /*otherwise=*/3072);
//   bytes_read(sources[0], 100000);   // for 100,000 of its images
#pragma once
#include <vector>

#include "poem/config.h"

namespace poem {

// Outliers of one place in data.outliers.
struct OutlierSource {
  double share = 1;        // of the pool
  double image_bytes = 0;  // of one image on disk
  double images = 0;       // 0: not known; the pool then is all of them
};

// Those of data.outliers. Headers of packed files that exist say how many images there are, and of how many
// bytes. An image of another source has `otherwise` bytes.
std::vector<OutlierSource> outlier_sources(const Config& config, double otherwise);

// Bytes of the pages that have a part of so many images, chosen at random.
double bytes_read(const OutlierSource& source, double images);

}  // namespace poem
