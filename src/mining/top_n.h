// The N best of a stream of scores, with memory bounded by N. Of equal scores, the smaller index is better.
//
//   TopN best(50000);
//   for (each block) best.offer(scores, count, first_index);
//   std::vector<int64_t> chosen = best.take();
//
// The result does not depend on the order or the size of the blocks.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

namespace poem {

class TopN {
 public:
  explicit TopN(int64_t n);
  // Scores of the indices first_index, first_index + 1, … Offer each index once. NaN is a poem::Error.
  void offer(const float* scores, int64_t count, int64_t first_index);
  // Indices of the n largest scores, ascending. A poem::Error if fewer than n were offered.
  std::vector<int64_t> take();

 private:
  void shrink();
  int64_t n_;
  // The worst of the n best when the buffer was last full. What is not better is out.
  uint32_t floor_key_ = std::numeric_limits<uint32_t>::max();
  int64_t floor_index_ = std::numeric_limits<int64_t>::max();
  int64_t kept_ = 0;
  std::vector<uint32_t> keys_, scratch_;  // the first kept_ entries are in use; the size is the capacity
  std::vector<int64_t> indices_;
};

}  // namespace poem
