// Two-stage mining against brute force, on pools whose first stage is known: an outlier's group decides what
// the first stage can see of it.
#include "mining/two_stages.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "expect_error.h"
#include "images/pool.h"
#include "mining/mine.h"
#include "poem/mining.h"
#include "poem/random.h"
#include "team_threads.h"

namespace poem {
namespace {

// What the network, and what a first look, computes of a crop: functions of its seed.
using OfCrop = std::function<double(uint64_t seed)>;

struct Given : Miner {
  OfCrop f;
  bool boundary = true;  // otherwise f is the rank, as with miner greedy
  mutable int64_t scored = 0;
  bool ranks_alone(const MiningTask&) const override { return true; }
  PoolScores score(const MiningTask& task) const override {
    PoolScores scores;
    for (const Crop& crop : task.pool) {
      const auto value = static_cast<float>(f(crop.seed));
      scores.rank.push_back(boundary ? -std::abs(value) : value);
      if (boundary) scores.logit.push_back(value);
    }
    scored += static_cast<int64_t>(task.pool.size());
    return scores;
  }
};

// Two features: what is seen, and noise. In blocks of 700.
FeatureWalk look(const OfCrop& seen) {
  return [seen](const std::vector<Crop>& crops, const FeatureVisit& visit) {
    constexpr size_t kBlock = 700;
    for (size_t first = 0; first < crops.size(); first += kBlock) {
      std::vector<float> rows;
      for (size_t i = first; i < std::min(first + kBlock, crops.size()); ++i) {
        rows.push_back(static_cast<float>(seen(crops[i].seed)));
        rows.push_back(static_cast<float>(Stream(crops[i].seed, "noise").normal()));
      }
      visit(static_cast<int64_t>(first), at::tensor(rows).view({-1, 2}));
    }
  };
}

double group(uint64_t seed) { return Stream(seed, "group").uniform() < 0.4 ? 0.5 : 3; }
double sign(uint64_t seed) { return Stream(seed, "sign").uniform() < 0.5 ? -1 : 1; }
// Groups around −3, −0.5, 0.5 and 3 that overlap. A first look sees the group.
double seen(uint64_t seed) { return sign(seed) * group(seed); }
double hidden(uint64_t seed) { return seen(seed) + 1.8 * Stream(seed, "hidden").normal(); }

MiningTask task_of(int64_t images, int64_t pool, int64_t epoch, double candidates, int64_t select,
                   const OfCrop& seen) {
  MiningTask task;
  task.pool = draw_pool(images, pool, 3, epoch);
  task.settings.select = select;
  task.settings.candidates = candidates;
  task.network.first_look = look(seen);
  task.network.first_look_count = 2;
  task.seed = 3;
  task.epoch = epoch;
  return task;
}

// Indices by descending value; of equal ones, the first is first.
std::vector<size_t> sorted(const std::vector<double>& value) {
  std::vector<size_t> order(value.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return value[a] > value[b]; });
  return order;
}

// The seeds of the best crops by rank, walked from the top: `skip` of them are passed over.
std::set<uint64_t> best_of(const std::vector<Crop>& pool, const OfCrop& rank, int64_t skip, int64_t count,
                           int64_t limit = 0) {
  std::vector<double> ranks;
  for (const Crop& crop : pool) ranks.push_back(rank(crop.seed));
  std::map<int64_t, int64_t> taken;
  std::set<uint64_t> best;
  for (size_t i : sorted(ranks)) {
    if (static_cast<int64_t>(best.size()) == count) break;
    if (limit > 0 && taken[pool[i].image]++ >= limit) continue;
    if (skip-- <= 0) best.insert(pool[i].seed);
  }
  return best;
}

std::set<uint64_t> seeds(const std::vector<Crop>& crops) {
  std::set<uint64_t> all;
  for (const Crop& crop : crops) all.insert(crop.seed);
  return all;
}

int64_t shared(const std::set<uint64_t>& a, const std::set<uint64_t>& b) {
  return std::count_if(a.begin(), a.end(), [&](uint64_t seed) { return b.count(seed) > 0; });
}

double boundary(uint64_t seed) { return -std::abs(hidden(seed)); }

// Exactly those crops that the first look sees near the boundary.
std::vector<Crop> near(const std::vector<Crop>& pool) {
  std::vector<Crop> crops;
  for (const Crop& crop : pool)
    if (group(crop.seed) < 1) crops.push_back(crop);
  return crops;
}

double share(const std::vector<Crop>& some, const std::vector<Crop>& pool) {
  return (static_cast<double>(some.size()) - 0.5) / static_cast<double>(pool.size());
}

TEST(TwoStages, MineTheBestOfTheCandidates) {
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    MiningTask task = task_of(9000, 6000, epoch, 1, 500, seen);
    const std::vector<Crop> candidates = near(task.pool);
    task.settings.candidates = share(candidates, task.pool);
    Given miner;
    miner.f = hidden;
    task.settings.skip = epoch % 2 > 0 ? 0.03 : 0;
    const Mined mined = mine(miner, task, {});
    EXPECT_EQ(seeds(mined.crops), best_of(candidates, boundary, task.settings.skip_count(6000), 500));
    EXPECT_LT(miner.scored, static_cast<int64_t>(candidates.size()) + 1200)
        << "only candidates and samples go through the network";
  }
}

// Of 20 epochs, the measured share is right on average, and off by as much as its error says.
TEST(TwoStages, MeasureWhatTheyMiss) {
  double difference = 0, variance = 0, squares = 0;
  constexpr int64_t kEpochs = 20;
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    MiningTask task = task_of(30000, 20000, epoch, 1, 4000, seen);
    const std::vector<Crop> candidates = near(task.pool);
    task.settings.candidates = share(candidates, task.pool);
    Given miner;
    miner.f = hidden;
    const MiningDiagnostics d = mine(miner, task, {}).diagnostics;
    const double truth =
        static_cast<double>(shared(best_of(task.pool, boundary, 0, 4000), seeds(candidates))) / 4000;
    EXPECT_GT(truth, 0.6);
    EXPECT_LT(truth, 0.95);
    ASSERT_TRUE(d.recall && d.recall_error);
    const double off = *d.recall - truth;
    difference += off;
    variance += *d.recall_error * *d.recall_error;
    squares += off * off / (*d.recall_error * *d.recall_error);
  }
  EXPECT_LT(std::abs(difference), 3 * std::sqrt(variance));
  EXPECT_GT(squares / kEpochs, 0.3);
  EXPECT_LT(squares / kEpochs, 2);
}

// The look sees all that matters, so nothing is missed: with w and without, in each way to be limited.
TEST(TwoStages, ThatSeeEverythingMineWhatOneStageMines) {
  const OfCrop f = [](uint64_t seed) { return 2 * hidden(seed) - 0.7; };
  for (const bool boundary : {true, false}) {
    for (const double skip : {0.0, 0.1}) {
      MiningTask task = task_of(9000, 6000, 1, 0.4, 500, hidden);
      task.settings.skip = skip;
      task.settings.random = 0.2;
      Given miner;
      miner.f = f;
      miner.boundary = boundary;
      const Mined two = mine(miner, task, {});
      task.settings.candidates = 1;
      const Mined one = mine(miner, task, {});
      EXPECT_EQ(seeds(two.crops), seeds(one.crops));
      EXPECT_EQ(two.diagnostics.recall, 1.0);
      EXPECT_FALSE(one.diagnostics.recall);
      EXPECT_GT(two.diagnostics.recall_error, 0.0) << "of a sample";
    }
  }
}

TEST(TwoStages, PassOnAtMostSoManyCropsOfAnImage) {
  MiningTask task = task_of(300, 6000, 2, 0.2, 250, seen);
  task.settings.max_per_image = 1;
  Given miner;
  miner.f = hidden;
  const Mined mined = mine(miner, task, {});
  EXPECT_EQ(mined.crops.size(), 250u);
  EXPECT_EQ(mined.diagnostics.distinct_images, 250);
  ASSERT_TRUE(mined.diagnostics.recall);
}

// The figures of the pool are those of a sample, and what was not scored does not count.
TEST(TwoStages, DescribeThePoolByASample) {
  MiningTask task = task_of(30000, 20000, 0, 0.5, 4000, seen);
  task.settings.random = 0.5;
  Given miner;
  miner.f = hidden;
  const Mined mined = mine(miner, task, {});
  double pool = 0, chosen = 0, scored = 0;
  const std::set<uint64_t> best = best_of(task.pool, boundary, 0, 2000);
  for (const Crop& crop : task.pool) pool -= boundary(crop.seed) / 20000;
  EXPECT_NEAR(*mined.diagnostics.pool_abs_logit, pool, 5 * 1.4 / std::sqrt(500));
  for (const Crop& crop : mined.crops) {
    if (best.count(crop.seed) == 0) continue;
    chosen -= boundary(crop.seed);
    ++scored;
  }
  EXPECT_GT(*mined.diagnostics.mined_abs_logit, chosen / scored) << "with those taken at random";
  EXPECT_LT(*mined.diagnostics.mined_abs_logit, pool);
}

TEST(TwoStages, NeedEnoughCandidates) {
  MiningTask task = task_of(9000, 6000, 0, 0.1, 700, seen);
  Given miner;
  miner.f = hidden;
  expect_error([&] { mine(miner, task, {}); }, {"mining.candidates", "0.1", "600", "700", "0.117 or more"});
  task.settings.random = 0.2;  // those taken at random need not be candidates
  EXPECT_NO_THROW(mine(miner, task, {}));
  task.settings.skip = 0.05;
  expect_error([&] { mine(miner, task, {}); }, {"mining.candidates", "860"});
}

class TwoStagesOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(TwoStages, TwoStagesOf, testing::Values(2, 3, 4));

TEST_P(TwoStagesOf, MinesInTwoStagesWhatOneProcessMines) {
  std::vector<MiningTask> tasks;
  for (int64_t epoch = 0; epoch < 8; ++epoch) {
    MiningTask task = task_of(epoch % 2 > 0 ? 900 : 9000, 3000, epoch, 0.4, 300, hidden);
    task.network.first_look =
        look([](uint64_t seed) { return hidden(seed) + Stream(seed, "more").normal(); });
    if (epoch % 2 > 0) task.settings.max_per_image = 1;
    if (epoch % 3 > 0) task.settings.skip = 0.1;
    task.settings.random = static_cast<double>(epoch % 4) * 0.2;
    tasks.push_back(task);
  }
  as_team(GetParam(), [&](const Team& team) {
    double missed = 0;
    for (const MiningTask& task : tasks) {
      Given miner;
      miner.f = hidden;
      miner.boundary = task.epoch % 5 > 0;
      const Mined one = mine(miner, task, {}), all = mine(miner, task, {}, team);
      EXPECT_EQ(seeds(one.crops), seeds(all.crops));
      EXPECT_EQ(one.diagnostics.recall, all.diagnostics.recall);
      missed += 1 - *one.diagnostics.recall;
      if (!miner.boundary) continue;
      EXPECT_NEAR(*one.diagnostics.pool_abs_logit, *all.diagnostics.pool_abs_logit, 1e-9);
      EXPECT_NEAR(*one.diagnostics.mined_abs_logit, *all.diagnostics.mined_abs_logit, 1e-9);
    }
    EXPECT_GT(missed, 0.1) << "the first stage errs";
  });
}

TEST(TwoStages, AreForMinersThatRankEachOutlierByItself) {
  for (const char* name : {"thompson", "mean", "greedy", "logit"})
    EXPECT_TRUE(takes_candidates(*make_miner(name)));
  for (const char* name : {"random", "dos", "diverse"}) EXPECT_FALSE(takes_candidates(*make_miner(name)));
}

// By hand: Beta(1, 1) of nothing, Beta(91, 11) of 90 in 100.
TEST(MeasuredShare, HasTheErrorOfItsSample) {
  EXPECT_DOUBLE_EQ(measured_share(90, 100).value, 0.9);
  EXPECT_NEAR(measured_share(90, 100).error, std::sqrt(91.0 * 11 / (102.0 * 102 * 103)), 1e-12);
  EXPECT_GT(measured_share(100, 100).error, 0);
}

}  // namespace
}  // namespace poem
