// Which images of some sets another set contains, with the same pixels. Reads the other set once and needs
// little memory for it, so that a mapped file of millions of images can be searched.
//
//   const CopyFinder finder({&test, &svhn});
//   const std::vector<FoundCopies> found = finder.search(pool);   // of test, of svhn
//   if (found[0].count > 0) fmt::print("{} = {}\n", test.title(found[0].image), pool.title(found[0].copy));
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "poem/images.h"

namespace poem {

struct FoundCopies {
  int64_t count = 0;              // of the set's images that are in the other set, each counted once
  int64_t image = -1, copy = -1;  // the first of them, and its first copy in the other set
};

class CopyFinder {
 public:
  explicit CopyFinder(const std::vector<const ImageSet*>& sets);  // which must outlive it

  // One entry per set. Images of another shape are never the same; nor are points.
  std::vector<FoundCopies> search(const ImageSet& others) const;

 private:
  struct Copies {  // images of one set with the same pixels
    size_t set;
    int64_t first, count;
  };
  const uint8_t* pixels_of(size_t set, int64_t image) const;
  void add(size_t set, int64_t image);

  std::vector<const ImageSet*> sets_;
  std::vector<at::Tensor> pixels_;  // of each set, contiguous
  // A look at a few bytes decides about most images. Those with the same few bytes are hashed as a whole, and
  // those with the same hash are compared byte by byte, once with all images of a set that are the same.
  std::unordered_set<uint64_t> few_;
  std::unordered_multimap<uint64_t, size_t> whole_;  // positions in groups_
  std::vector<Copies> groups_;
};

}  // namespace poem
