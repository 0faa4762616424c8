// The N best of a stream of scores in memory bounded by N: ties are broken by the smaller index.
#pragma once
#include <cstdint>
#include <vector>

namespace poem {

class TopN {
 public:
  explicit TopN(int64_t n);
  void offer(const float* scores, int64_t count, int64_t first_index);  // scores of indices first_index …
  // Indices of the n largest scores, ascending. Fewer than n offered is a poem::Error; so is a NaN score.
  std::vector<int64_t> take();

 private:
  struct Entry {
    float score;
    int64_t index;
  };
  void shrink();
  int64_t n_;
  float floor_;  // scores below it cannot be among the best any more
  std::vector<Entry> kept_;
};

}  // namespace poem
