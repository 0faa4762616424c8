// Which images of a set another set contains, with the same pixels. Reads the other set once and needs memory
// for the first one only, so that a mapped file of millions of images can be searched.
//
//   const CopyFinder finder(test);
//   const FoundCopies found = finder.search(pool);
//   if (found.count > 0) fmt::print("{} = {}\n", test.title(found.image), pool.title(found.copy));
#pragma once
#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include "poem/images.h"

namespace poem {

struct FoundCopies {
  int64_t count = 0;              // of the images that are in the other set, each counted once
  int64_t image = -1, copy = -1;  // the first of them, and its first copy in the other set
};

class CopyFinder {
 public:
  explicit CopyFinder(const ImageSet& images);  // kept by reference

  // Images of another shape are never the same; nor are points.
  FoundCopies search(const ImageSet& others) const;

 private:
  bool same_kind(const ImageSet& others) const;

  const ImageSet& images_;
  at::Tensor pixels_;  // contiguous
  // A look at a few bytes decides about most images: those with these bytes are hashed as a whole, and those
  // with the same hash are compared byte by byte.
  std::unordered_set<uint64_t> few_;
  std::unordered_multimap<uint64_t, int64_t> whole_;  // the hash of an image, and its index
};

}  // namespace poem
