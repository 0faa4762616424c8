// Computes the pool's features block by block, so that the features of all crops are never in memory at once.
//
//   each_block(task, [&](int64_t first, const at::Tensor& features) { … });
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>

#include "poem/mining.h"

namespace poem {

// Calls `visit` with the index of a block's first pool entry and the block's Network::features().
void each_block(const MiningTask& task,
                const std::function<void(int64_t first, const at::Tensor& features)>& visit);

// Copies a block's column of scores to `out`, from entry `first` on.
void copy_scores(const at::Tensor& scores, std::vector<float>& out, int64_t first);

// Ranks by the boundary score −|wᵀφ(x)|. The posterior's `draws` (m×d) show how much drawing matters: the
// second one gives PoolScores::other, and all of them together PoolScores::spread.
PoolScores boundary_scores(const MiningTask& task, const at::Tensor& w, const at::Tensor& draws);

// Draws from this epoch's posterior, one per column, as many as boundary_scores() needs.
at::Tensor weight_draws(const MiningTask& task);

}  // namespace poem
