#include "mining/shard.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/float_key.h"
#include "mining/top_n.h"

namespace poem {
namespace {

int64_t next_image(const std::vector<Crop>& pool, int64_t border) {
  const auto size = static_cast<int64_t>(pool.size());
  while (border > 0 && border < size && pool[border].image == pool[border - 1].image) ++border;
  return border;
}

// How many of the n best of all shards lie in this one. Digit by digit, from the highest, the ranks count
// their keys that begin like that of the n-th best. Among equal keys, the first in the pool is better.
int64_t own_share(const std::vector<float>& rank, int64_t n, const Team& team) {
  if (team.size() == 1) return n;
  constexpr uint32_t kMask = (1u << 11) - 1;
  int64_t better = 0,
          left = n;  // better keys of this shard; how many are sought among those that begin alike
  uint32_t begin = 0;
  at::Tensor own;
  uint32_t digit = 0;
  for (const int shift : {22, 11, 0}) {
    own = at::zeros({kMask + 1}, at::kLong);
    auto* count = own.data_ptr<int64_t>();
    for (const float r : rank) {
      const uint32_t key = descending_key(r);
      if (shift == 22 || key >> (shift + 11) == begin) ++count[key >> shift & kMask];
    }
    const at::Tensor all = own.clone();
    team.sum(all);
    const auto* total = all.data_ptr<int64_t>();
    for (digit = 0; left > total[digit]; ++digit) {
      left -= total[digit];
      better += count[digit];
    }
    begin = begin << 11 | digit;
  }
  const int64_t tied = own[digit].item<int64_t>();
  const std::vector<int64_t> ties = team.joined({tied});
  const int64_t before = std::accumulate(ties.begin(), ties.begin() + team.rank(), int64_t{0});
  return better + std::clamp<int64_t>(left - before, 0, tied);
}

void take_out(const std::vector<int64_t>& entries, std::vector<float>& rank) {
  for (int64_t i : entries) rank[i] = kOut;
}

}  // namespace

MiningTask with_pool(const MiningTask& task, std::vector<Crop> pool) {
  return {std::move(pool), task.settings, task.network, task.posterior, task.batch, task.seed, task.epoch};
}

Shard::Shard(const MiningTask& whole, const Team& team) : pool_size(whole.pool.size()), team(team) {
  const Range part = team.part(static_cast<int64_t>(pool_size));
  first = next_image(whole.pool, part.first);
  task =
      with_pool(whole, {whole.pool.begin() + first, whole.pool.begin() + next_image(whole.pool, part.last)});
}

void limit_repeats(const std::vector<Crop>& pool, int64_t limit, std::vector<float>& rank) {
  std::vector<size_t> repeats;
  for (size_t begin = 0, end; begin < pool.size(); begin = end) {
    for (end = begin + 1; end < pool.size() && pool[end].image == pool[begin].image;) ++end;
    if (static_cast<int64_t>(end - begin) <= limit) continue;
    repeats.resize(end - begin);
    std::iota(repeats.begin(), repeats.end(), begin);
    std::stable_sort(repeats.begin(), repeats.end(), [&](size_t a, size_t b) { return rank[a] > rank[b]; });
    for (size_t i = limit; i < repeats.size(); ++i) rank[repeats[i]] = kOut;
  }
}

int64_t available(const std::vector<Crop>& pool, int64_t limit) {
  if (limit == 0) return static_cast<int64_t>(pool.size());
  int64_t total = 0, run = 0;
  for (size_t i = 0; i < pool.size(); ++i) {
    run = i > 0 && pool[i].image == pool[i - 1].image ? run + 1 : 1;
    if (run <= limit) ++total;
  }
  return total;
}

std::vector<int64_t> top(const std::vector<float>& rank, int64_t n, const Team& team) {
  if (n == 0) return {};
  TopN best(own_share(rank, n, team));
  best.offer(rank.data(), static_cast<int64_t>(rank.size()), 0);
  return best.take();
}

std::vector<int64_t> take_best(const Shard& shard, std::vector<float>& rank) {
  const MiningSettings& settings = shard.task.settings;
  if (settings.max_per_image > 0) limit_repeats(shard.task.pool, settings.max_per_image, rank);
  take_out(top(rank, settings.skip_count(shard.pool_size), shard.team), rank);
  const std::vector<int64_t> best = top(rank, settings.select - settings.random_count(), shard.team);
  take_out(best, rank);
  return best;
}

}  // namespace poem
