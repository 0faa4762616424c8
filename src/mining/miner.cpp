#include "poem/mining.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "core/registry.h"
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

std::vector<int64_t> top(const std::vector<float>& rank, int64_t n) {
  if (n == 0) return {};
  TopN best(n);
  best.offer(rank.data(), static_cast<int64_t>(rank.size()), 0);
  return best.take();
}

void take_out(const std::vector<int64_t>& entries, std::vector<float>& rank) {
  for (int64_t i : entries) rank[i] = kOut;
}

// Random numbers instead of ranks.
void shuffle(const MiningTask& task, std::vector<float>& rank) {
  Stream stream(task.seed, "mined-at-random", task.epoch);
  for (float& r : rank) {
    const auto chance = static_cast<float>(stream.uniform());
    if (r > kOut) r = chance;
  }
}

// Takes the best by rank, as many as are not taken at random. In `rank`, only entries that may still be mined
// remain.
std::vector<int64_t> take_best(const MiningTask& task, std::vector<float>& rank) {
  if (task.settings.max_per_image > 0) limit_repeats(task.pool, task.settings.max_per_image, rank);
  take_out(top(rank, task.settings.skip_count(task.pool.size())), rank);
  const std::vector<int64_t> best = top(rank, task.settings.select - task.settings.random_count());
  take_out(best, rank);
  return best;
}

std::vector<int64_t> add_random(const MiningTask& task, std::vector<int64_t> chosen,
                                std::vector<float>& rank) {
  shuffle(task, rank);
  const std::vector<int64_t> others = top(rank, task.settings.random_count());
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

double shared(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {  // both ascending
  std::vector<int64_t> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return static_cast<double>(both.size()) / static_cast<double>(std::max<size_t>(a.size(), 1));
}

template <class Function>
double mean_over(const std::vector<int64_t>& indices, Function value) {
  double sum = 0;
  for (int64_t i : indices) sum += value(i);
  return sum / static_cast<double>(std::max<size_t>(indices.size(), 1));
}

// exp(−Σ s log s) over the shares s of the clusters: 1 if all entries are in one cluster, k if they are
// spread evenly over k.
double effective_number(const std::vector<int64_t>& entries, const std::vector<int64_t>& cluster) {
  std::map<int64_t, int64_t> count;
  for (int64_t i : entries) ++count[cluster[i]];
  double entropy = 0;
  for (const auto& [name, members] : count) {
    const double share = static_cast<double>(members) / static_cast<double>(entries.size());
    entropy -= share * std::log(share);
  }
  return std::exp(entropy);
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
  const int64_t offered =
      std::max<int64_t>(0, available(pool, settings.max_per_image) - settings.skip_count(pool.size()));
  if (settings.select > offered) {
    throw Error(
        "mining.select",
        fmt::format("{} outliers are to be mined, but the pool offers only {}", settings.select, offered),
        "raise mining.pool or mining.max_per_image, or lower mining.select or mining.skip");
  }
}

Mined mine(const Miner& miner, const MiningTask& task, const std::vector<Crop>& last) {
  check_select(task.pool, task.settings);
  PoolScores scores = miner.score(task);
  const std::vector<int64_t> best = take_best(task, scores.rank);
  const std::vector<int64_t> chosen = add_random(task, best, scores.rank);

  Mined mined;
  for (int64_t i : chosen) mined.crops.push_back(task.pool[i]);
  const auto images = distinct_images(mined.crops);
  MiningDiagnostics& d = mined.diagnostics;
  d.distinct_images = static_cast<int64_t>(images.size());
  if (!last.empty()) d.last_overlap = shared(images, distinct_images(last));
  if (!scores.other.empty()) d.draw_overlap = shared(best, take_best(task, scores.other));
  std::vector<int64_t> all(task.pool.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  if (!scores.length.empty()) {
    const auto length = [&](int64_t i) { return double{scores.length[i]}; };
    d.pool_length = mean_over(all, length);
    d.mined_length = mean_over(chosen, length);
  }
  if (!scores.cluster.empty()) {
    d.pool_clusters = effective_number(all, scores.cluster);
    d.mined_clusters = effective_number(chosen, scores.cluster);
  }
  if (!scores.logit.empty()) {
    const auto magnitude = [&](int64_t i) { return std::abs(double{scores.logit[i]}); };
    const auto p_outlier = [&](int64_t i) { return 1 / (1 + std::exp(-double{scores.logit[i]})); };
    d.pool_abs_logit = mean_over(all, magnitude);
    d.mined_abs_logit = mean_over(chosen, magnitude);
    d.pool_p_outlier = mean_over(all, p_outlier);
    d.mined_p_outlier = mean_over(chosen, p_outlier);
    d.spread = scores.spread;
  }
  return mined;
}

}  // namespace poem
