// Goes through the pool in blocks, so that only what a miner keeps of each outlives it.
//
//   each_block(task, [&](int64_t first, const at::Tensor& features) { … });
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>

#include "mining/miner.h"

namespace poem {

// `visit` gets a block's first pool entry and its features (as Network::features() gives them).
void each_block(const MiningTask& task,
                const std::function<void(int64_t first, const at::Tensor& features)>& visit);

// Copies a column of scores to where the block's entries lie.
void copy_scores(const at::Tensor& scores, std::vector<float>& out, int64_t first);

// Ranks by the boundary score −|wᵀφ(x)| of `w`. Of the posterior's `draws` (m×d), which tell how much drawing
// matters, the second gives the other choice, all of them the spread.
PoolScores boundary_scores(const MiningTask& task, const at::Tensor& w, const at::Tensor& draws);

// As many draws from the posterior of this epoch as boundary_scores() wants, a column each.
at::Tensor weight_draws(const MiningTask& task);

}  // namespace poem
