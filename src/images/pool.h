// The pool: the S (image, crop) pairs that one epoch scores.
//
//   draw_pool(outliers, 400000, seed, epoch);   // of the first part of a mixture share · 400,000, and so on
#pragma once
#include <cstdint>
#include <vector>

#include "images/mixture.h"
#include "poem/crops.h"

namespace poem {

// Uniform over the source, drawn anew for every (seed, epoch). With pool_size ≤ source_size all images are
// distinct; beyond that every image occurs ⌊S/n⌋ or ⌈S/n⌉ times, each time with a crop of its own. Ordered by
// image, so repeats of an image are neighbours and a mapped source is read front to back. Another `part` is
// another draw.
std::vector<Crop> draw_pool(int64_t source_size, int64_t pool_size, uint64_t seed, int64_t epoch,
                            size_t part = 0);

// How many of the pool each part gives: share · pool_size, rounded so that they add up to pool_size.
std::vector<int64_t> pool_counts(const Mixture& source, int64_t pool_size);

// The pools of all parts, one after the other.
std::vector<Crop> draw_pool(const Mixture& source, int64_t pool_size, uint64_t seed, int64_t epoch);

}  // namespace poem
