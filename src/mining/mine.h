// mine() of a team (poem/mining.h). Where the miner allows it, each rank scores a part of the pool. All ranks
// get the set that one process would mine.
//
//   Mined mined = mine(miner, task, last_mined, team);   // `task` has the whole pool, on every rank
//
// Scores are not exchanged. Counts of their leading bits lead to the score from which entries are mined; then
// each rank tells the numbers of its own.
#pragma once
#include "dist/team.h"
#include "poem/mining.h"

namespace poem {

Mined mine(const Miner& miner, const MiningTask& task, const std::vector<Crop>& last, const Team& team);

}  // namespace poem
