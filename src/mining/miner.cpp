#include "poem/mining.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "core/float_key.h"
#include "core/registry.h"
#include "mining/mine.h"
#include "mining/top_n.h"
#include "poem/error.h"
#include "poem/random.h"

namespace poem {

// One function per miner, each in its own file.
std::unique_ptr<Miner> make_random_miner();
std::unique_ptr<Miner> make_thompson_miner();
std::unique_ptr<Miner> make_mean_miner();
std::unique_ptr<Miner> make_greedy_miner();
std::unique_ptr<Miner> make_logit_miner();
std::unique_ptr<Miner> make_dos_miner();
std::unique_ptr<Miner> make_diverse_miner();

namespace {

Registry<MinerFactory>& miners() {
  static Registry<MinerFactory> miners("mining.miner", {
                                                           {"random", make_random_miner},
                                                           {"thompson", make_thompson_miner},
                                                           {"mean", make_mean_miner},
                                                           {"greedy", make_greedy_miner},
                                                           {"logit", make_logit_miner},
                                                           {"dos", make_dos_miner},
                                                           {"diverse", make_diverse_miner},
                                                       });
  return miners;
}

constexpr float kOut = -std::numeric_limits<float>::infinity();  // the rank of entries that must not be mined

// Keeps the `limit` best crops of each image; the others can no longer be mined. Crops of the same image are
// neighbours in the pool.
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

void check_offered(int64_t offered, const MiningSettings& settings) {
  if (settings.select <= std::max<int64_t>(0, offered)) return;
  throw Error("mining.select",
              fmt::format("{} outliers are to be mined, but the pool offers only {}", settings.select,
                          std::max<int64_t>(0, offered)),
              "raise mining.pool or mining.max_per_image, or lower mining.select or mining.skip");
}

// The part of the pool that a rank scores.
struct Shard {
  Shard(const MiningTask& whole, const Team& team) : task(whole), pool_size(whole.pool.size()), team(team) {
    const Range part = team.part(static_cast<int64_t>(pool_size));
    first = next_image(whole.pool, part.first);
    task.pool.assign(whole.pool.begin() + first, whole.pool.begin() + next_image(whole.pool, part.last));
  }

  // All crops of an image are in one shard, so that limit_repeats() sees all of them.
  static int64_t next_image(const std::vector<Crop>& pool, int64_t border) {
    const auto size = static_cast<int64_t>(pool.size());
    while (border > 0 && border < size && pool[border].image == pool[border - 1].image) ++border;
    return border;
  }

  MiningTask task;
  size_t pool_size;   // of the whole pool
  int64_t first = 0;  // where it begins there
  const Team team;
};

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

// Those of the n best of the pool that lie in the shard.
std::vector<int64_t> top(const Shard& shard, const std::vector<float>& rank, int64_t n) {
  if (n == 0) return {};
  TopN best(own_share(rank, n, shard.team));
  best.offer(rank.data(), static_cast<int64_t>(rank.size()), shard.first);
  std::vector<int64_t> entries = best.take();
  for (int64_t& entry : entries) entry -= shard.first;
  return entries;
}

void take_out(const std::vector<int64_t>& entries, std::vector<float>& rank) {
  for (int64_t i : entries) rank[i] = kOut;
}

// Random numbers instead of ranks.
void shuffle(const Shard& shard, std::vector<float>& rank) {
  Stream stream(shard.task.seed, "mined-at-random", shard.task.epoch);
  for (int64_t i = 0; i < shard.first; ++i) stream.uniform();  // those of earlier shards
  for (float& r : rank) {
    const auto chance = static_cast<float>(stream.uniform());
    if (r > kOut) r = chance;
  }
}

// Takes the best by rank, as many as are not taken at random. In `rank`, only entries that may still be mined
// remain.
std::vector<int64_t> take_best(const Shard& shard, std::vector<float>& rank) {
  const MiningSettings& settings = shard.task.settings;
  if (settings.max_per_image > 0) limit_repeats(shard.task.pool, settings.max_per_image, rank);
  take_out(top(shard, rank, settings.skip_count(shard.pool_size)), rank);
  const std::vector<int64_t> best = top(shard, rank, settings.select - settings.random_count());
  take_out(best, rank);
  return best;
}

std::vector<int64_t> add_random(const Shard& shard, std::vector<int64_t> chosen, std::vector<float>& rank) {
  shuffle(shard, rank);
  const std::vector<int64_t> others = top(shard, rank, shard.task.settings.random_count());
  chosen.insert(chosen.end(), others.begin(), others.end());
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

std::vector<int64_t> distinct_images(const std::vector<Crop>& crops) {
  std::vector<int64_t> images;
  images.reserve(crops.size());
  for (const Crop& crop : crops) images.push_back(crop.image);
  std::sort(images.begin(), images.end());
  images.erase(std::unique(images.begin(), images.end()), images.end());
  return images;
}

double shared(const std::vector<int64_t>& a, const std::vector<int64_t>& b, const Team& team) {
  std::vector<int64_t> both;  // of two ascending lists
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return team.sum(static_cast<double>(both.size())) / std::max(team.sum(static_cast<double>(a.size())), 1.0);
}

// Over the indices of all shards.
template <class Function>
double mean_over(const std::vector<int64_t>& indices, Function value, const Team& team) {
  double sum = 0;
  for (int64_t i : indices) sum += value(i);
  return team.sum(sum) / std::max(team.sum(static_cast<double>(indices.size())), 1.0);
}

// exp(−Σ s log s) over the shares s of the clusters: 1 if all entries are in one cluster, k if they are
// spread evenly over k.
double effective_number(const std::vector<int64_t>& entries, const std::vector<int64_t>& cluster,
                        const Team& team) {
  const int64_t own = cluster.empty() ? 0 : 1 + *std::max_element(cluster.begin(), cluster.end());
  const std::vector<int64_t> counts = team.joined({own});
  const at::Tensor members = at::zeros({*std::max_element(counts.begin(), counts.end())}, at::kDouble);
  for (int64_t i : entries) members.data_ptr<double>()[cluster[i]] += 1;
  team.sum(members);
  const double total = members.sum().item<double>();
  double entropy = 0;
  for (int64_t c = 0; c < members.size(0); ++c) {
    const double share = members.data_ptr<double>()[c] / total;
    if (share > 0) entropy -= share * std::log(share);
  }
  return std::exp(entropy);
}

// What is known of the pool's entries, and of those of them that were chosen.
void describe(const Shard& shard, const PoolScores& scores, const std::vector<int64_t>& chosen,
              MiningDiagnostics& d) {
  const Team& team = shard.team;
  std::vector<int64_t> all(shard.task.pool.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  if (team.any(!scores.length.empty())) {
    const auto length = [&](int64_t i) { return double{scores.length[i]}; };
    d.pool_length = mean_over(all, length, team);
    d.mined_length = mean_over(chosen, length, team);
  }
  if (team.any(!scores.cluster.empty())) {
    d.pool_clusters = effective_number(all, scores.cluster, team);
    d.mined_clusters = effective_number(chosen, scores.cluster, team);
  }
  if (team.any(!scores.logit.empty())) {
    const auto magnitude = [&](int64_t i) { return std::abs(double{scores.logit[i]}); };
    const auto p_outlier = [&](int64_t i) { return 1 / (1 + std::exp(-double{scores.logit[i]})); };
    d.pool_abs_logit = mean_over(all, magnitude, team);
    d.mined_abs_logit = mean_over(chosen, magnitude, team);
    d.pool_p_outlier = mean_over(all, p_outlier, team);
    d.mined_p_outlier = mean_over(chosen, p_outlier, team);
    if (team.any(scores.spread.has_value())) {
      const double weight = static_cast<double>(all.size()) / static_cast<double>(shard.pool_size);
      d.spread = team.sum(weight * scores.spread.value_or(0));
    }
  }
}

}  // namespace

int64_t MiningSettings::skip_count(size_t pool_size) const {
  return static_cast<int64_t>(skip * static_cast<double>(pool_size));
}

int64_t MiningSettings::random_count() const { return std::llround(random * static_cast<double>(select)); }

std::vector<std::string> miner_names() { return miners().names(); }

std::unique_ptr<Miner> make_miner(const std::string& name) { return miners().find(name)(); }

void register_miner(const std::string& name, MinerFactory make) {
  if (name == "none") throw Error("mining.miner", "'none' means no mining", "choose another name");
  miners().add(name, std::move(make));
}

void check_select(const std::vector<Crop>& pool, const MiningSettings& settings) {
  check_offered(available(pool, settings.max_per_image) - settings.skip_count(pool.size()), settings);
}

void check_select(const MiningSettings& settings) {
  check_offered(settings.pool - settings.skip_count(static_cast<size_t>(settings.pool)), settings);
}

Mined mine(const Miner& miner, const MiningTask& task, const std::vector<Crop>& last, const Team& team) {
  check_select(task.pool, task.settings);
  const Shard shard(task, miner.ranks_alone(task) ? team : Team());
  PoolScores scores = miner.score(shard.task);
  const std::vector<int64_t> best = take_best(shard, scores.rank);
  const std::vector<int64_t> chosen = add_random(shard, best, scores.rank);

  Mined mined;
  std::vector<int64_t> entries;
  for (int64_t i : chosen) entries.push_back(shard.first + i);
  // Where each rank has ranked all of the pool, rank 0's choice counts, in case of roundings that differ.
  if (shard.team.size() < team.size() && !team.first()) entries.clear();
  for (int64_t i : team.joined(entries)) mined.crops.push_back(task.pool[i]);
  const auto images = distinct_images(mined.crops);
  MiningDiagnostics& d = mined.diagnostics;
  d.distinct_images = static_cast<int64_t>(images.size());
  if (!last.empty()) d.last_overlap = shared(images, distinct_images(last), Team());
  if (shard.team.any(!scores.other.empty()))
    d.draw_overlap = shared(best, take_best(shard, scores.other), shard.team);
  describe(shard, scores, chosen, d);
  return mined;
}

Mined mine(const Miner& miner, const MiningTask& task, const std::vector<Crop>& last) {
  return mine(miner, task, last, Team());
}

}  // namespace poem
