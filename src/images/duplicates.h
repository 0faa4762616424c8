// Images that occur more than once, in one set or in several: with the same pixels, or nearly the same look.
//
//   const Duplicates found = find_duplicates({{train_marks, labels}, {test_marks, {}}}, /*most_pairs=*/100);
//   for (const Overlap& overlap : found.overlaps)
//     fmt::print("{} exact, {} near\n", overlap.exact.images, overlap.near.images);
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "images/fingerprint.h"

namespace poem {

struct MarkedSet {
  std::vector<Fingerprint> marks;  // one per image
  at::Tensor labels = {};          // int64, one per image; undefined if there are none
};

struct DuplicatePair {
  int64_t image, twin;
  double likeness;  // of near duplicates; 1 if the pixels are the same
};

// Counts are of images, not of pairs, of which a thousand copies of an image have half a million.
struct Twins {
  int64_t images = 0;  // of the set that have a twin in the other set
  int64_t others = 0;  // of the other set that have a twin in the set
  std::vector<DuplicatePair>
      pairs;  // some of them, the most alike first: `image` in the set, `twin` in the other
};

struct Overlap {
  size_t set, other;  // set ≤ other; the same for duplicates inside a set
  Twins exact;
  Twins near;        // images with a near, but no exact duplicate
  Twins relabelled;  // inside a set: images with an exact or near duplicate that has another label
};

struct Duplicates {
  std::vector<int64_t> different;  // images of each set, if copies are counted once
  std::vector<Overlap> overlaps;   // those that are not empty, by set and other set
};

// At most 64 sets. Finds every pair for which same_pixels() or look_alike() holds, and keeps at most
// `most_pairs` of each kind.
Duplicates find_duplicates(const std::vector<MarkedSet>& sets, size_t most_pairs);

}  // namespace poem
