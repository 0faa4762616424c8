// The pool: the S (image, crop) pairs that one epoch scores.
#pragma once
#include <cstdint>
#include <vector>

#include "poem/crops.h"

namespace poem {

// Uniform over the source, drawn anew for every (seed, epoch). With pool_size ≤ source_size all images are
// distinct; beyond that every image occurs ⌊S/n⌋ or ⌈S/n⌉ times, each time with a crop of its own. Ordered by
// image, so repeats of an image are neighbours and a mapped source is read front to back.
std::vector<Crop> draw_pool(int64_t source_size, int64_t pool_size, uint64_t seed, int64_t epoch);

}  // namespace poem
