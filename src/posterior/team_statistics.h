// Statistics of which each rank of a team has a part.
//
//   sum_over(team, statistics);   // now those of all ranks, on every rank: m² + m + 1 numbers
#pragma once
#include "dist/team.h"
#include "poem/posterior.h"

namespace poem {

inline void sum_over(const Team& team, Statistics& statistics) {
  team.sum(statistics.gram);
  team.sum(statistics.moment);
  statistics.count = team.sum(statistics.count);
}

}  // namespace poem
