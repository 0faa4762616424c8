// The part of the pool that a rank scores, and the choice of the best entries of all parts.
//
//   const Shard shard(task, team);
//   std::vector<float> rank = …;                                       // one per entry of shard.task.pool
//   const std::vector<int64_t> best = take_best(shard, rank);         // those of this part, ascending
//
// Scores are not exchanged: own_share() in shard.cpp counts their leading bits.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "dist/team.h"
#include "poem/mining.h"

namespace poem {

constexpr float kOut = -std::numeric_limits<float>::infinity();  // the rank of entries that must not be mined

// The task with another pool. Its own one, which may be large, is not copied.
MiningTask with_pool(const MiningTask& task, std::vector<Crop> pool);

struct Shard {
  // `task` has the whole pool. All crops of an image are in one shard, so that limit_repeats() sees all of
  // them.
  Shard(const MiningTask& whole, const Team& team);

  MiningTask task;    // with this part of the pool
  size_t pool_size;   // of the whole pool
  int64_t first = 0;  // where the part begins there
  Team team;
};

// Keeps the `limit` best crops of each image; the others can no longer be mined. Crops of the same image are
// neighbours in the pool.
void limit_repeats(const std::vector<Crop>& pool, int64_t limit, std::vector<float>& rank);

// How many crops of the pool can be mined under a limit per image; 0: no limit.
int64_t available(const std::vector<Crop>& pool, int64_t limit);

// Those of the n best of all ranks' entries that this rank has, ascending. Of equal ranks, the first in the
// pool is better.
std::vector<int64_t> top(const std::vector<float>& rank, int64_t n, const Team& team);

// Takes the best by rank, as many as are not taken at random. In `rank`, only entries that may still be mined
// remain.
std::vector<int64_t> take_best(const Shard& shard, std::vector<float>& rank);

}  // namespace poem
