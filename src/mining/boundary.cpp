#include "mining/boundary.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "poem/random.h"

namespace poem {

void copy_scores(const at::Tensor& scores, std::vector<float>& out, int64_t first) {
  const at::Tensor values = scores.to(at::kCPU, at::kFloat).contiguous();
  std::copy_n(values.data_ptr<float>(), values.numel(), out.data() + first);
}

PoolScores boundary_scores(const MiningTask& task, const at::Tensor& w, const at::Tensor& draws) {
  const size_t size = task.pool.size();
  const at::Tensor columns = at::cat({w.unsqueeze(1), draws}, 1);
  constexpr int64_t kW = 0, kDraws = 1, kSecondDraw = 2, kLength = -1;  // columns of a block
  PoolScores scores;
  scores.logit.resize(size);
  scores.rank.resize(size);
  scores.other.resize(size);
  scores.length.resize(size);
  std::vector<std::pair<int64_t, at::Tensor>>
      blocks;  // on the device until the end, so that none is waited for
  at::Tensor weights;
  task.network.features(task.pool, [&](int64_t first, const at::Tensor& features) {
    if (!weights.defined()) weights = columns.to(features.options());
    const at::Tensor phi = features.narrow(1, 0, weights.size(0));
    // f(x) = wᵀφ(x), and ‖φ(x)‖
    blocks.emplace_back(first, at::cat({phi.mm(weights), phi.norm(2, 1, /*keepdim=*/true)}, 1));
  });
  double spread = 0;
  for (const auto& [first, block] : blocks) {
    const at::Tensor logits = block.cpu();
    copy_scores(logits.select(1, kW), scores.logit, first);
    copy_scores(-logits.select(1, kW).abs(), scores.rank, first);
    copy_scores(-logits.select(1, kSecondDraw).abs(), scores.other, first);
    copy_scores(logits.select(1, kLength), scores.length, first);
    spread += logits.narrow(1, kDraws, draws.size(1)).std(1).sum().item<double>();
  }
  scores.spread = spread / static_cast<double>(std::max<size_t>(size, 1));
  return scores;
}

at::Tensor weight_draws(const MiningTask& task) {
  constexpr int64_t kDraws = 8;
  Stream stream(task.seed, "weights", task.epoch);
  return task.posterior->draws(stream, kDraws);
}

}  // namespace poem
