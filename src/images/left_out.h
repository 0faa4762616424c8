// A set of which some members are left out.
//
//   number_without({0, 3}, 1);  // 2: the second of 1, 2, 4, 5, …
#pragma once
#include <cstdint>
#include <vector>

namespace poem {

// The i-th number from 0 on that is not among `left_out` (ascending).
int64_t number_without(const std::vector<int64_t>& left_out, int64_t i);

}  // namespace poem
