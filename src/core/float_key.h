// Scores as integers that ascend while the scores descend, for selecting by digits.
//
//   descending_key(2.5f) < descending_key(1.0f);
#pragma once
#include <cstdint>
#include <cstring>

namespace poem {

// −0 and +0 get the same key. NaN has no place in the order.
inline uint32_t descending_key(float score) {
  const float same_zero = score + 0.0f;
  uint32_t bits;
  std::memcpy(&bits, &same_zero, sizeof bits);
  return bits >> 31 ? bits : ~bits & 0x7fffffffu;
}

}  // namespace poem
