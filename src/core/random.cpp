#include "poem/random.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

namespace poem {
namespace {

// The finaliser of splitmix64: every bit of the input reaches every bit of the result.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t key_of(uint64_t seed, std::string_view name, uint64_t a) {
  uint64_t key = mix(seed);
  for (unsigned char c : name) key = mix(key ^ c);
  return mix(key ^ mix(a));
}

}  // namespace

Stream::Stream(uint64_t seed, std::string_view name, uint64_t a, uint64_t b)
    : engine_(key_of(seed, name, a), b) {}

uint64_t Stream::below(uint64_t n) {
  // Values from the last, incomplete run of n are drawn again, so that none is favoured.
  const uint64_t limit = UINT64_MAX - UINT64_MAX % n;
  uint64_t x = bits64();
  while (x >= limit) x = bits64();
  return x % n;
}

double Stream::normal() {
  const double radius = std::sqrt(-2.0 * std::log1p(-uniform()));
  return radius * std::cos(2.0 * M_PI * uniform());
}

std::vector<int64_t> permutation(int64_t n, Stream& stream) {
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t i = n - 1; i > 0; --i) std::swap(order[i], order[stream.below(i + 1)]);
  return order;
}

std::vector<int64_t> sample(int64_t n, int64_t k, Stream& stream) {
  // Floyd's algorithm: one draw a member, no table of all n.
  std::unordered_set<int64_t> chosen(2 * k);
  for (int64_t j = n - k; j < n; ++j) {
    const auto x = static_cast<int64_t>(stream.below(j + 1));
    if (!chosen.insert(x).second) chosen.insert(j);
  }
  std::vector<int64_t> result(chosen.begin(), chosen.end());
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace poem
