#include "mining/two_stages.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "mining/boundary.h"
#include "poem/random.h"
#include "posterior/team_statistics.h"

namespace poem {
namespace {

// Below every rank that a miner gives, and above kOut: can be mined at random, but not by rank.
constexpr float kUnranked = std::numeric_limits<float>::lowest();

int64_t total(int64_t own, const Team& team) { return std::llround(team.sum(static_cast<double>(own))); }

struct Samples {
  std::vector<Crop> fit, check;
  std::vector<int64_t> check_entries;  // of the shard
};

// All crops of an image are in the same part, so that mining.max_per_image means the same in it.
Samples draw_samples(const Shard& shard) {
  const double share = two_stage_sample(static_cast<double>(shard.pool_size));
  Samples samples;
  double chance = 0;
  for (size_t i = 0; i < shard.task.pool.size(); ++i) {
    const Crop& crop = shard.task.pool[i];
    if (i == 0 || crop.image != shard.task.pool[i - 1].image)
      chance = Stream(shard.task.seed, "two-stages", shard.task.epoch, crop.image).uniform();
    if (chance >= share) continue;
    if (chance < share / 2) {
      samples.fit.push_back(crop);
    } else {
      samples.check.push_back(crop);
      samples.check_entries.push_back(static_cast<int64_t>(i));
    }
  }
  return samples;
}

// What the first stage computes of an outlier.
struct FirstStage {
  at::Tensor weights;  // m + 1, the constant last
  bool boundary;       // the prediction is wᵀφ, and the rank −|wᵀφ|; otherwise it is the rank itself
};

at::Tensor with_constant(const at::Tensor& features) {
  return at::cat({features, at::ones({features.size(0), 1}, features.options())}, 1);
}

bool is_boundary_score(const PoolScores& scores) {
  return !scores.logit.empty() &&
         std::equal(scores.rank.begin(), scores.rank.end(), scores.logit.begin(),
                    [](float rank, float logit) { return rank == -std::abs(logit); });
}

// Least squares, with the posterior's prior as a ridge.
FirstStage fit(const Miner& miner, const Shard& shard, const std::vector<Crop>& crops) {
  const MiningTask task = with_pool(shard.task, crops);
  const PoolScores scores = miner.score(task);
  FirstStage stage;
  stage.boundary = !shard.team.any(!crops.empty() && !is_boundary_score(scores));
  const std::vector<float>& wanted = stage.boundary ? scores.logit : scores.rank;
  const at::Tensor targets = at::tensor(wanted, at::kDouble);
  Statistics statistics(task.network.first_look_count + 1);
  task.network.first_look(task.pool, [&](int64_t first, const at::Tensor& features) {
    statistics.add(with_constant(features), targets.narrow(0, first, features.size(0)));
  });
  sum_over(shard.team, statistics);
  stage.weights = Posterior(statistics, PosteriorSettings()).mean();
  return stage;
}

std::vector<float> first_ranks(const FirstStage& stage, const MiningTask& task) {
  std::vector<std::pair<int64_t, at::Tensor>> blocks;  // on the device until the end, as in boundary_scores()
  at::Tensor weights;
  task.network.first_look(task.pool, [&](int64_t first, const at::Tensor& features) {
    if (!weights.defined()) weights = stage.weights.to(features.options());
    const at::Tensor predicted = with_constant(features).mv(weights);
    blocks.emplace_back(first, stage.boundary ? -predicted.abs() : predicted);
  });
  std::vector<float> ranks(task.pool.size());
  for (const auto& [first, block] : blocks) copy_scores(block, ranks, first);
  return ranks;
}

// Repeats of an image are limited here too: the candidates then offer as many outliers as are mined.
std::vector<int64_t> choose_candidates(const Shard& shard, std::vector<float> rank) {
  const MiningSettings& settings = shard.task.settings;
  int64_t count = settings.candidate_count(shard.pool_size);
  if (settings.max_per_image > 0) {
    limit_repeats(shard.task.pool, settings.max_per_image, rank);
    count = std::min(count, total(available(shard.task.pool, settings.max_per_image), shard.team));
  }
  return top(rank, count, shard.team);
}

std::vector<Crop> crops_of(const Shard& shard, const std::vector<int64_t>& entries) {
  std::vector<Crop> crops;
  for (int64_t i : entries) crops.push_back(shard.task.pool[i]);
  return crops;
}

// The scores of some entries of the shard as scores of all of it.
PoolScores spread_out(const PoolScores& some, const std::vector<int64_t>& entries, size_t size) {
  PoolScores all;
  const auto place = [&](const auto& from, auto& to, auto otherwise) {
    if (from.empty()) return;
    to.assign(size, otherwise);
    for (size_t i = 0; i < entries.size(); ++i) to[entries[i]] = from[i];
  };
  all.rank.assign(size, kUnranked);  // of a shard without candidates too
  place(some.rank, all.rank, kUnranked);
  place(some.logit, all.logit, 0.f);
  place(some.length, all.length, 0.f);
  place(some.cluster, all.cluster, int64_t{0});
  return all;
}

// The sample is a small pool: of it, as large a share is mined as of the whole one.
Shard sample_shard(const Shard& shard, const std::vector<Crop>& crops) {
  Shard sample = shard;
  sample.task.pool = crops;
  sample.pool_size = total(static_cast<int64_t>(crops.size()), shard.team);
  MiningSettings& settings = sample.task.settings;
  settings.select = std::llround(static_cast<double>(settings.select * sample.pool_size) /
                                 static_cast<double>(shard.pool_size));
  return sample;
}

std::optional<MeasuredShare> measure_recall(const Shard& sample, std::vector<float> rank,
                                            const std::vector<int64_t>& entries,
                                            const std::vector<int64_t>& candidates) {
  const MiningSettings& settings = sample.task.settings;
  if (settings.max_per_image > 0) limit_repeats(sample.task.pool, settings.max_per_image, rank);
  const int64_t offered = total(available(sample.task.pool, settings.max_per_image), sample.team);
  const int64_t best = std::min(settings.ranked_count(sample.pool_size), offered);
  if (best == 0) return std::nullopt;
  double found = 0;
  for (int64_t i : top(rank, best, sample.team))
    found += std::binary_search(candidates.begin(), candidates.end(), entries[i]) ? 1 : 0;
  return measured_share(sample.team.sum(found), static_cast<double>(best));
}

}  // namespace

// 2 % of the pool. Of a small one more, so that the fit has some hundred images.
double two_stage_sample(double pool_size) {
  constexpr double kShare = 0.02, kEnough = 1000, kMost = 0.25;
  return std::max(kShare, std::min(kMost, kEnough / pool_size));
}

double scoring_work(double candidates, double first_look, double pool_size) {
  return candidates == 1 ? 1 : first_look + candidates + two_stage_sample(pool_size);
}

// The error is the standard deviation of Beta(found + 1, of − found + 1), what one knows of the share.
MeasuredShare measured_share(double found, double of) {
  const double mean = (found + 1) / (of + 2);
  return {found / of, std::sqrt(mean * (1 - mean) / (of + 3))};
}

TwoStages score_in_two_stages(const Miner& miner, const Shard& shard) {
  const Samples samples = draw_samples(shard);
  const FirstStage first = fit(miner, shard, samples.fit);
  std::vector<int64_t> candidates = choose_candidates(shard, first_ranks(first, shard.task));
  const PoolScores scores = miner.score(with_pool(shard.task, crops_of(shard, candidates)));
  Shard sample = sample_shard(shard, samples.check);
  PoolScores sample_scores = miner.score(sample.task);
  const auto recall = measure_recall(sample, sample_scores.rank, samples.check_entries, candidates);
  PoolScores spread = spread_out(scores, candidates, shard.task.pool.size());
  return {std::move(spread), std::move(candidates), std::move(sample), std::move(sample_scores), recall};
}

}  // namespace poem
