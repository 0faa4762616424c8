// Every random draw of poem is a function of (seed, name of the stream, two counters). Nothing has to be
// saved to resume a run, and no draw depends on how many others came before it.
//
//   Stream order(seed, "id-order", epoch);
//   auto rows = permutation(50000, order);
#pragma once
#include <ATen/core/PhiloxRNGEngine.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace poem {

class Stream {
 public:
  Stream(uint64_t seed, std::string_view name, uint64_t a = 0, uint64_t b = 0);

  uint32_t bits() { return engine_(); }
  uint64_t bits64() {
    const uint64_t high = engine_();
    return (high << 32) | engine_();
  }
  double uniform() { return static_cast<double>(bits64() >> 11) * 0x1p-53; }  // [0, 1)
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  uint64_t below(uint64_t n);  // 0 … n−1 without bias; n > 0
  double normal();             // N(0, 1)

 private:
  at::Philox4_32 engine_;
};

// 0 … n−1 in random order.
std::vector<int64_t> permutation(int64_t n, Stream& stream);

// k distinct numbers of 0 … n−1, ascending, every subset equally likely; 0 ≤ k ≤ n. Memory grows with k, not
// n.
std::vector<int64_t> sample(int64_t n, int64_t k, Stream& stream);

}  // namespace poem
