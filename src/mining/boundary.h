// The paper's Ĝ(x) = −|wᵀφ(x)|, highest for outliers between ID and the rest of the pool: what the miners
// that have weights w rank by.
//
//   const at::Tensor draws = weight_draws(task);
//   PoolScores scores = boundary_scores(task, draws.select(1, 0), draws);
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>

#include "poem/mining.h"

namespace poem {

// Copies a block's column of scores to `out`, from entry `first` on.
void copy_scores(const at::Tensor& scores, std::vector<float>& out, int64_t first);

// Ranks by the boundary score −|wᵀφ(x)|. The posterior's `draws` (m×d) show how much drawing matters: the
// second one gives PoolScores::other, and all of them together PoolScores::spread.
PoolScores boundary_scores(const MiningTask& task, const at::Tensor& w, const at::Tensor& draws);

// Draws from this epoch's posterior, one per column, as many as boundary_scores() needs.
at::Tensor weight_draws(const MiningTask& task);

}  // namespace poem
