#include "poem/mining.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/registry.h"
#include "mining/mine.h"
#include "mining/shard.h"
#include "mining/two_stages.h"
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

// `pool` is its size, `offered` how many of its entries the limit per image leaves.
void check_select(size_t pool, int64_t offered, const MiningSettings& settings) {
  offered = std::max<int64_t>(0, offered - settings.skip_count(pool));
  if (settings.select > offered) {
    throw Error(
        "mining.select",
        fmt::format("{} outliers are to be mined, but the pool offers only {}", settings.select, offered),
        "raise mining.pool or mining.max_per_image, or lower mining.select or mining.skip");
  }
  const int64_t candidates = settings.candidate_count(pool), ranked = settings.ranked_count(pool);
  if (candidates < ranked) {
    constexpr double kStep = 1000;  // the remedy has three decimals
    const double enough = std::ceil(static_cast<double>(ranked) / static_cast<double>(pool) * kStep) / kStep;
    throw Error("mining.candidates",
                fmt::format("{:g} of the pool are {} candidates, but {} are mined or skipped by rank",
                            settings.candidates, candidates, ranked),
                fmt::format("give {:g} or more, or raise mining.pool", enough));
  }
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

std::vector<int64_t> add_random(const Shard& shard, std::vector<int64_t> chosen, std::vector<float>& rank) {
  shuffle(shard, rank);
  const std::vector<int64_t> others = top(rank, shard.task.settings.random_count(), shard.team);
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
  const double found = team.sum(static_cast<double>(both.size()));
  return found / std::max(team.sum(static_cast<double>(a.size())), 1.0);
}

// Over the indices of all shards.
template <class Function>
double mean_over(const std::vector<int64_t>& indices, Function value, const Team& team) {
  double sum = 0;
  for (int64_t i : indices) sum += value(i);
  sum = team.sum(sum);
  return sum / std::max(team.sum(static_cast<double>(indices.size())), 1.0);
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

// Entries, and the scores in which they are found.
struct Described {
  const PoolScores& scores;
  std::vector<int64_t> entries;
};

std::vector<int64_t> all_entries(const PoolScores& scores) {
  std::vector<int64_t> all(scores.rank.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

void describe(const Described& pool, const Described& mined, const Team& team, MiningDiagnostics& d) {
  const auto known = [&](const auto member) {
    return team.any(!(pool.scores.*member).empty() || !(mined.scores.*member).empty());
  };
  const auto mean = [&](const Described& of, auto value) {
    return mean_over(
        of.entries, [&](int64_t i) { return value(of.scores, i); }, team);
  };
  if (known(&PoolScores::length)) {
    const auto length = [](const PoolScores& scores, int64_t i) { return double{scores.length[i]}; };
    d.pool_length = mean(pool, length);
    d.mined_length = mean(mined, length);
  }
  if (known(&PoolScores::cluster)) {
    d.pool_clusters = effective_number(pool.entries, pool.scores.cluster, team);
    d.mined_clusters = effective_number(mined.entries, mined.scores.cluster, team);
  }
  if (known(&PoolScores::logit)) {
    const auto magnitude = [](const PoolScores& scores, int64_t i) {
      return std::abs(double{scores.logit[i]});
    };
    const auto p_outlier = [](const PoolScores& scores, int64_t i) {
      return 1 / (1 + std::exp(-double{scores.logit[i]}));
    };
    d.pool_abs_logit = mean(pool, magnitude);
    d.mined_abs_logit = mean(mined, magnitude);
    d.pool_p_outlier = mean(pool, p_outlier);
    d.mined_p_outlier = mean(mined, p_outlier);
    if (team.any(pool.scores.spread.has_value())) {
      const auto own = static_cast<double>(pool.entries.size());
      d.spread = team.sum(own / std::max(team.sum(own), 1.0) * pool.scores.spread.value_or(0));
    }
  }
}

// The figures of two stages: the pool's are those of a sample of it, and outliers that were taken at random
// and not scored do not count.
void describe(const TwoStages& stages, const PoolScores& scores, const std::vector<int64_t>& chosen,
              MiningDiagnostics& d) {
  const Team& team = stages.sample.team;
  if (stages.recall) {
    d.recall = stages.recall->value;
    d.recall_error = stages.recall->error;
  }
  PoolScores sample = stages.sample_scores;
  if (team.any(!sample.other.empty())) {
    const std::vector<int64_t> best = take_best(stages.sample, sample.rank);
    const std::vector<int64_t> others = take_best(stages.sample, sample.other);
    d.draw_overlap = shared(best, others, team);
  }
  std::vector<int64_t> scored;
  std::set_intersection(chosen.begin(), chosen.end(), stages.candidates.begin(), stages.candidates.end(),
                        std::back_inserter(scored));
  describe({stages.sample_scores, all_entries(sample)}, {scores, scored}, team, d);
}

}  // namespace

int64_t MiningSettings::skip_count(size_t pool_size) const {
  return static_cast<int64_t>(skip * static_cast<double>(pool_size));
}

int64_t MiningSettings::random_count() const { return std::llround(random * static_cast<double>(select)); }

int64_t MiningSettings::ranked_count(size_t pool_size) const {
  return skip_count(pool_size) + select - random_count();
}

int64_t MiningSettings::candidate_count(size_t pool_size) const {
  return static_cast<int64_t>(std::ceil(candidates * static_cast<double>(pool_size)));
}

std::vector<std::string> miner_names() { return miners().names(); }

std::unique_ptr<Miner> make_miner(const std::string& name) { return miners().find(name)(); }

void register_miner(const std::string& name, MinerFactory make) {
  if (name == "none") throw Error("mining.miner", "'none' means no mining", "choose another name");
  miners().add(name, std::move(make));
}

void check_select(const std::vector<Crop>& pool, const MiningSettings& settings) {
  check_select(pool.size(), available(pool, settings.max_per_image), settings);
}

void check_select(const MiningSettings& settings) {
  check_select(static_cast<size_t>(settings.pool), settings.pool, settings);
}

// Asked with a posterior that has seen data, as in all epochs but the first.
bool takes_candidates(const Miner& miner) {
  Statistics statistics(1);
  statistics.add(at::ones({1, 1}), at::ones({1}, at::kDouble));
  const Posterior posterior(statistics, PosteriorSettings());
  MiningTask task;
  task.posterior = &posterior;
  return miner.ranks_alone(task);
}

Mined mine(const Miner& miner, const MiningTask& task, const std::vector<Crop>& last, const Team& team) {
  check_select(task.pool, task.settings);
  const bool alone = miner.ranks_alone(task);
  const Shard shard(task, alone ? team : Team());
  std::optional<TwoStages> stages;
  if (alone && task.settings.candidates < 1) stages = score_in_two_stages(miner, shard);
  PoolScores scores = stages ? std::move(stages->scores) : miner.score(shard.task);
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
  if (stages) {
    describe(*stages, scores, chosen, d);
    return mined;
  }
  if (shard.team.any(!scores.other.empty()))
    d.draw_overlap = shared(best, take_best(shard, scores.other), shard.team);
  describe({scores, all_entries(scores)}, {scores, chosen}, shard.team, d);
  return mined;
}

Mined mine(const Miner& miner, const MiningTask& task, const std::vector<Crop>& last) {
  return mine(miner, task, last, Team());
}

}  // namespace poem
