#include "poem/mining.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "expect_error.h"
#include "images/pool.h"
#include "poem/random.h"
#include "poem/scores.h"

namespace poem {
namespace {

// A miner whose scores a test writes down.
struct Given : Miner {
  PoolScores scores;
  bool uses_posterior() const override { return false; }
  PoolScores score(const MiningTask&) const override { return scores; }
};

std::vector<Crop> pool_of(const std::vector<int64_t>& images) {
  std::vector<Crop> pool;
  for (size_t i = 0; i < images.size(); ++i) pool.push_back({images[i], 1000 + i});
  return pool;
}

// Which pool entries were mined: every entry of these pools has a seed of its own.
std::vector<int64_t> indices(const std::vector<Crop>& pool, const std::vector<Crop>& mined) {
  std::map<uint64_t, int64_t> place;
  for (size_t i = 0; i < pool.size(); ++i) place[pool[i].seed] = static_cast<int64_t>(i);
  std::vector<int64_t> result;
  for (const Crop& crop : mined) {
    result.push_back(place.at(crop.seed));
    EXPECT_EQ(pool[result.back()].image, crop.image);
  }
  return result;
}

// Walks the whole ranking from the top and takes what the limit allows.
std::vector<int64_t> brute_force(const std::vector<Crop>& pool, const std::vector<float>& rank, int64_t n,
                                 int64_t limit) {
  std::vector<int64_t> order(pool.size()), chosen;
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return rank[a] > rank[b]; });
  std::map<int64_t, int64_t> taken;
  for (int64_t i : order) {
    if (static_cast<int64_t>(chosen.size()) == n) break;
    if (limit == 0 || taken[pool[i].image]++ < limit) chosen.push_back(i);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

MiningTask task(const std::vector<Crop>& pool, int64_t select, int64_t max_per_image = 0) {
  MiningTask task;
  task.pool = pool;
  task.settings.select = select;
  task.settings.max_per_image = max_per_image;
  task.seed = 7;
  return task;
}

// Takes features in blocks of 2,000 crops.
using Features = std::function<at::Tensor(const Crop*, int64_t)>;
FeatureWalk walk(const Features& features) {
  return [features](const std::vector<Crop>& crops, const FeatureVisit& visit) {
    const auto size = static_cast<int64_t>(crops.size());
    for (int64_t first = 0; first < size; first += 2000)
      visit(first, features(&crops[first], std::min<int64_t>(2000, size - first)));
  };
}

MiningTask task(const std::vector<Crop>& pool, int64_t select, const Features& features,
                const Posterior* posterior, uint64_t seed, int64_t epoch) {
  MiningTask with_features = task(pool, select);
  with_features.network.features = walk(features);
  with_features.posterior = posterior;
  with_features.seed = seed;
  with_features.epoch = epoch;
  return with_features;
}

TEST(Mine, EqualsAFullSort) {
  for (uint64_t round = 0; round < 40; ++round) {
    Stream stream(5, "rounds", round);
    const auto size = static_cast<int64_t>(1 + stream.below(300));
    const std::vector<Crop> pool = draw_pool(1 + stream.below(100), size, round, 0);
    Given miner;
    for (int64_t i = 0; i < size; ++i) miner.scores.rank.push_back(stream.below(20) - 10.f);  // many ties
    const auto n = static_cast<int64_t>(1 + stream.below(size));
    const Mined mined = mine(miner, task(pool, n), {});
    EXPECT_EQ(indices(pool, mined.crops), brute_force(pool, miner.scores.rank, n, 0));
  }
}

TEST(Mine, AtMostSoManyCropsOfAnImage) {
  for (uint64_t round = 0; round < 40; ++round) {
    Stream stream(6, "rounds", round);
    const auto source = static_cast<int64_t>(1 + stream.below(60));
    const auto size = static_cast<int64_t>(1 + stream.below(300)),
               limit = static_cast<int64_t>(1 + stream.below(4));
    const std::vector<Crop> pool = draw_pool(source, size, round, 0);
    Given miner;
    for (int64_t i = 0; i < size; ++i) miner.scores.rank.push_back(stream.below(20) - 10.f);
    const auto most = static_cast<int64_t>(brute_force(pool, miner.scores.rank, size, limit).size());
    const auto n = static_cast<int64_t>(1 + stream.below(most));
    const Mined mined = mine(miner, task(pool, n, limit), {});
    EXPECT_EQ(indices(pool, mined.crops), brute_force(pool, miner.scores.rank, n, limit));
    EXPECT_EQ(mine(miner, task(pool, most, limit), {}).crops.size(), static_cast<size_t>(most));
    expect_error([&] { mine(miner, task(pool, most + 1, limit), {}); },
                 {"mining.select", std::to_string(most + 1), std::to_string(most)});
  }
}

TEST(Mine, AShareIsTakenAtRandomFromTheRest) {
  std::vector<int64_t> images(1000);
  std::iota(images.begin(), images.end(), int64_t{0});
  const std::vector<Crop> pool = pool_of(images);
  Given miner;
  for (int64_t i = 0; i < 1000; ++i) miner.scores.rank.push_back(static_cast<float>(-i));
  std::set<int64_t> seen;
  double sum = 0;
  for (int64_t epoch = 0; epoch < 200; ++epoch) {
    MiningTask half = task(pool, 100);
    half.settings.random = 0.5;
    half.settings.skip = 0.1;  // ranks 0 to 99 are passed over, also by chance
    half.epoch = epoch;
    const auto chosen = indices(pool, mine(miner, half, {}).crops);
    ASSERT_EQ(chosen.size(), 100u);
    for (int64_t i = 0; i < 50; ++i) ASSERT_EQ(chosen[i], 100 + i);  // the best; the others come after them
    ASSERT_TRUE(std::is_sorted(chosen.begin(), chosen.end()));
    ASSERT_EQ(std::adjacent_find(chosen.begin(), chosen.end()), chosen.end());
    for (size_t i = 50; i < 100; ++i) sum += static_cast<double>(chosen[i]);
    seen.insert(chosen.begin() + 50, chosen.end());
    EXPECT_EQ(chosen, indices(pool, mine(miner, half, {}).crops)) << "a function of seed and epoch";
  }
  EXPECT_EQ(seen.size(), 850u);                   // every other one, some time
  EXPECT_NEAR(sum / (200 * 50), 574.5, 3 * 2.5);  // uniform on 150 … 999: three standard errors
}

TEST(Mine, MoreThanThePoolOffersIsAnErrorWithNumbers) {
  const std::vector<Crop> pool = pool_of({0, 0, 0, 1, 2});
  Given miner;
  miner.scores.rank = {1, 2, 3, 4, 5};
  expect_error([&] { mine(miner, task(pool, 6), {}); }, {"6 outliers", "only 5", "mining.pool"});
  expect_error([&] { mine(miner, task(pool, 4, 1), {}); }, {"4 outliers", "only 3"});
  EXPECT_EQ(mine(miner, task(pool, 5), {}).crops.size(), 5u);
}

TEST(Mine, DiagnosticsOfAChoiceWithoutADraw) {
  const std::vector<Crop> pool = pool_of({3, 3, 4, 5, 6});
  Given miner;
  miner.scores.rank = {9, 8, 7, 1, 0};
  const MiningDiagnostics first = mine(miner, task(pool, 3), {}).diagnostics;
  EXPECT_EQ(first.distinct_images, 2);  // 3 twice, and 4
  EXPECT_FALSE(first.last_overlap || first.draw_overlap || first.spread || first.pool_abs_logit ||
               first.mined_abs_logit || first.pool_p_outlier || first.mined_p_outlier);
  const auto overlap = [&](const std::vector<int64_t>& last) {
    return *mine(miner, task(pool, 3), pool_of(last)).diagnostics.last_overlap;
  };
  EXPECT_DOUBLE_EQ(overlap({4, 4, 9, 8, 7}), 0.5);
  EXPECT_DOUBLE_EQ(overlap({4, 3}), 1);
  EXPECT_DOUBLE_EQ(overlap({5, 6}), 0);
}

TEST(Mine, DiagnosticsOfADraw) {
  const std::vector<Crop> pool = pool_of({0, 1, 2, 3});
  Given miner;
  miner.scores.logit = {0.5f, -1, 2, -4};
  miner.scores.rank = {-0.5f, -1, -2, -4};
  miner.scores.other = {-9, -1, -2, -0.f};  // would choose 1 and 3
  miner.scores.spread = 0.75;
  const MiningDiagnostics d = mine(miner, task(pool, 2), {}).diagnostics;
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_DOUBLE_EQ(*d.pool_abs_logit, 7.5 / 4);
  EXPECT_DOUBLE_EQ(*d.mined_abs_logit, 0.75);
  EXPECT_DOUBLE_EQ(*d.pool_p_outlier, (sigmoid(0.5) + sigmoid(-1) + sigmoid(2) + sigmoid(-4)) / 4);
  EXPECT_DOUBLE_EQ(*d.mined_p_outlier, (sigmoid(0.5) + sigmoid(-1)) / 2);
  EXPECT_DOUBLE_EQ(*d.draw_overlap, 0.5);
  EXPECT_DOUBLE_EQ(*d.spread, 0.75);
  miner.scores.other = miner.scores.rank;
  EXPECT_DOUBLE_EQ(*mine(miner, task(pool, 2), {}).diagnostics.draw_overlap, 1);
  miner.scores.other = {-9, -9, 0, 0};
  EXPECT_DOUBLE_EQ(*mine(miner, task(pool, 2), {}).diagnostics.draw_overlap, 0);
}

TEST(Mine, BothDrawsKeepToTheLimitOfAnImage) {
  const std::vector<Crop> pool = pool_of({0, 0, 1, 2});
  Given miner;
  miner.scores.logit = miner.scores.rank = {5, 4, 3, 2};
  miner.scores.other = {5, 4, 3, 2};
  const Mined mined = mine(miner, task(pool, 3, 1), {});
  EXPECT_EQ(indices(pool, mined.crops), (std::vector<int64_t>{0, 2, 3}));
  EXPECT_DOUBLE_EQ(*mined.diagnostics.draw_overlap, 1);
}

TEST(RandomMiner, IsUniformAndAFunctionOfSeedAndEpoch) {
  std::vector<int64_t> images(50);
  std::iota(images.begin(), images.end(), int64_t{0});
  const std::vector<Crop> pool = pool_of(images);
  const auto miner = make_miner("random");
  EXPECT_FALSE(miner->uses_posterior());
  const auto chosen = [&](uint64_t seed, int64_t epoch) {
    return indices(pool, mine(*miner, task(pool, 10, nullptr, nullptr, seed, epoch), {}).crops);
  };
  EXPECT_EQ(chosen(1, 2), chosen(1, 2));
  EXPECT_NE(chosen(1, 2), chosen(1, 3));
  EXPECT_NE(chosen(1, 2), chosen(2, 2));
  std::vector<int> times(50);
  constexpr int kEpochs = 4000;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    for (int64_t i : chosen(9, epoch)) ++times[i];
  }
  // Each is chosen with p = 0.2: the count has mean 800 and standard deviation 25.3.
  double chi_squared = 0;
  for (int count : times) {
    EXPECT_NEAR(count, 800, 5 * 25.3);
    chi_squared += (count - 800.0) * (count - 800.0) / (25.3 * 25.3);
  }
  EXPECT_LT(chi_squared, 50 + 5 * 10);  // mean 49, standard deviation 10
}

// Features made up from the image's number alone.
constexpr int64_t kFeatures = 6;
void feature_row(int64_t image, float* out) {
  Stream stream(11, "features", static_cast<uint64_t>(image));
  for (int64_t j = 0; j < kFeatures; ++j) out[j] = static_cast<float>(stream.normal());
}
at::Tensor made_up(const Crop* crops, int64_t count) {
  at::Tensor features = at::empty({count, kFeatures}, at::kFloat);
  for (int64_t i = 0; i < count; ++i) feature_row(crops[i].image, features.data_ptr<float>() + i * kFeatures);
  return features;
}

// What so many rows along every axis leave: w is known to within `deviation`.
Posterior concentrated(const std::vector<double>& w, double deviation) {
  PosteriorSettings settings;
  settings.prior_variance = 1e6;
  Statistics statistics(kFeatures);
  const double rows = settings.noise_variance / (deviation * deviation);
  statistics.gram = at::eye(kFeatures, at::kDouble) * rows;
  statistics.moment = at::tensor(w, at::kDouble) * rows;
  statistics.count = rows * kFeatures;
  return {statistics, settings};
}

std::vector<Crop> numbered(int64_t size) {
  std::vector<int64_t> images(size);
  std::iota(images.begin(), images.end(), int64_t{0});
  return pool_of(images);
}

TEST(ThompsonMiner, MinesWhatLiesNearestTheBoundary) {
  const std::vector<double> w = {1, -2, 0.5, 3, 0, -1};
  const Posterior posterior = concentrated(w, 1e-9);
  const std::vector<Crop> pool = numbered(4500);  // more than two blocks
  const auto miner = make_miner("thompson");
  EXPECT_TRUE(miner->uses_posterior());
  const Mined mined = mine(*miner, task(pool, 300, made_up, &posterior, 1, 0), {});

  std::vector<float> rank;
  double pool_sum = 0;
  for (const Crop& crop : pool) {
    float row[kFeatures];
    feature_row(crop.image, row);
    double f = 0;
    for (int64_t j = 0; j < kFeatures; ++j) f += w[j] * row[j];
    rank.push_back(static_cast<float>(-std::abs(f)));
    pool_sum += std::abs(f);
  }
  const auto expected = brute_force(pool, rank, 300, 0);
  const auto got = indices(pool, mined.crops);
  std::vector<int64_t> both;
  std::set_intersection(expected.begin(), expected.end(), got.begin(), got.end(), std::back_inserter(both));
  EXPECT_GE(both.size(), 299u);  // the last one may fall otherwise by rounding
  double mined_sum = 0;
  for (int64_t i : expected) mined_sum -= rank[i];
  EXPECT_NEAR(*mined.diagnostics.pool_abs_logit, pool_sum / 4500, 1e-4);
  EXPECT_NEAR(*mined.diagnostics.mined_abs_logit, mined_sum / 300, 1e-4);
  EXPECT_GE(*mined.diagnostics.draw_overlap, 0.99);  // every draw is the same w
  EXPECT_NEAR(*mined.diagnostics.spread, 0, 1e-5);
}

// Networks may append what their head wants to the features: the posterior is over φ(x) alone.
TEST(PosteriorMiners, SeeTheFeaturesAloneAndNotWhatFollowsThem) {
  const Posterior posterior = concentrated({1, -2, 0.5, 3, 0, -1}, 0.5);
  const std::vector<Crop> pool = numbered(300);
  const auto wider = [](const Crop* crops, int64_t count) {
    return at::cat({made_up(crops, count), at::full({count, 2}, -3000.0, at::kFloat)}, 1);
  };
  for (const char* name : {"thompson", "mean"}) {
    const auto miner = make_miner(name);
    EXPECT_EQ(indices(pool, mine(*miner, task(pool, 40, wider, &posterior, 3, 8), {}).crops),
              indices(pool, mine(*miner, task(pool, 40, made_up, &posterior, 3, 8), {}).crops))
        << name;
  }
}

TEST(ThompsonMiner, DrawsAnewEveryEpochAndSeed) {
  PosteriorSettings settings;
  const Posterior prior(Statistics(kFeatures), settings);
  const std::vector<Crop> pool = numbered(500);
  const auto miner = make_miner("thompson");
  const auto chosen = [&](uint64_t seed, int64_t epoch) {
    return indices(pool, mine(*miner, task(pool, 50, made_up, &prior, seed, epoch), {}).crops);
  };
  EXPECT_EQ(chosen(1, 0), chosen(1, 0));
  EXPECT_NE(chosen(1, 0), chosen(1, 1));
  EXPECT_NE(chosen(1, 0), chosen(2, 0));
}

TEST(ThompsonMiner, TheFirstDrawIsThatOfTheWeightsStream) {
  const Posterior posterior = concentrated({1, 1, 1, 1, 1, 1}, 0.5);
  const std::vector<Crop> pool = numbered(100);
  const PoolScores scores = make_miner("thompson")->score(task(pool, 10, made_up, &posterior, 3, 8));
  Stream stream(3, "weights", 8);
  const at::Tensor w = posterior.draw(stream), second = posterior.draw(stream);
  for (int64_t i = 0; i < 100; ++i) {
    const at::Tensor row = made_up(&pool[i], 1)[0].to(at::kDouble);
    const double f = row.dot(w).item<double>();
    EXPECT_NEAR(scores.logit[i], f, 1e-5);
    EXPECT_NEAR(scores.rank[i], -std::abs(f), 1e-5);
    EXPECT_NEAR(scores.other[i], -std::abs(row.dot(second).item<double>()), 1e-5);
  }
}

TEST(ThompsonMiner, SpreadIsTheStandardDeviationUnderThePosterior) {
  // A posterior with correlated weights, from random rows.
  Statistics statistics(kFeatures);
  const std::vector<Crop> rows = numbered(9);
  statistics.add(made_up(rows.data(), 9), at::linspace(-3, 3, 9, at::kDouble));
  const Posterior posterior(statistics, {});
  const std::vector<Crop> pool = numbered(3000);
  const at::Tensor phi = made_up(pool.data(), 3000).to(at::kDouble);
  const double expected = (phi.mm(posterior.covariance()) * phi).sum(1).sqrt().mean().item<double>();
  const auto miner = make_miner("thompson");
  double sum = 0;
  constexpr int kEpochs = 200;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    sum += miner->score(task(pool, 10, made_up, &posterior, 1, epoch)).spread.value();
  }
  // The standard deviation of 8 normal draws is on average c₄(8) = 0.9650 of the true one.
  EXPECT_NEAR(sum / kEpochs / expected, 0.9650, 0.02);
}

TEST(MeanMiner, ChoosesByThePosteriorsMeanAndTellsHowMuchADrawWouldMatter) {
  const std::vector<double> w = {1, -2, 0.5, 3, 0, -1};
  const Posterior posterior = concentrated(w, 0.5);
  const std::vector<Crop> pool = numbered(500);
  std::vector<float> rank;
  for (const Crop& crop : pool) {
    float row[kFeatures];
    feature_row(crop.image, row);
    double f = 0;
    for (int64_t j = 0; j < kFeatures; ++j) f += posterior.mean()[j].item<double>() * row[j];
    rank.push_back(static_cast<float>(-std::abs(f)));
  }
  const auto miner = make_miner("mean");
  EXPECT_TRUE(miner->uses_posterior());
  const Mined mined = mine(*miner, task(pool, 40, made_up, &posterior, 1, 0), {});
  EXPECT_EQ(indices(pool, mined.crops), brute_force(pool, rank, 40, 0));
  const Mined drawn = mine(*make_miner("thompson"), task(pool, 40, made_up, &posterior, 1, 0), {});
  EXPECT_DOUBLE_EQ(*mined.diagnostics.spread, *drawn.diagnostics.spread);
  EXPECT_GT(*mined.diagnostics.draw_overlap, 0);
  EXPECT_LT(*mined.diagnostics.draw_overlap, 1);
  EXPECT_EQ(indices(pool, mine(*miner, task(pool, 40, made_up, &posterior, 2, 7), {}).crops),
            indices(pool, mined.crops));  // neither seed nor epoch matter
}

TEST(MeanMiner, TakesChanceForThePriorsMeanAndNotTheFirstOfThePool) {
  const Posterior prior(Statistics(kFeatures), {});
  const std::vector<Crop> pool = numbered(500);
  const auto chosen = [&](uint64_t seed) {
    return indices(pool, mine(*make_miner("mean"), task(pool, 100, made_up, &prior, seed, 0), {}).crops);
  };
  const std::vector<int64_t> one = chosen(1);
  EXPECT_NE(one, chosen(2));
  // Of 100 at random of 500 about half lie in the first half: 50, with a standard deviation of 4.5.
  EXPECT_NEAR(std::count_if(one.begin(), one.end(), [](int64_t i) { return i < 250; }), 50, 23);
}

MiningTask scored(const std::vector<Crop>& pool, int64_t select, double skip) {
  MiningTask scored = task(pool, select, made_up, nullptr, 1, 0);
  scored.settings.skip = skip;
  scored.network.logits = [](const at::Tensor& features) { return features.narrow(1, 0, 3); };
  scored.network.id_score = [](const at::Tensor& features) { return features.select(1, 4); };
  return scored;
}

TEST(GreedyMiner, TakesWhatLooksMostLikeIdAfterTheSkippedShare) {
  const std::vector<Crop> pool = numbered(400);
  std::vector<std::pair<float, int64_t>> order;
  for (const Crop& crop : pool) {
    float row[kFeatures];
    feature_row(crop.image, row);
    order.emplace_back(-row[4], crop.image);
  }
  std::sort(order.begin(), order.end());
  for (const double skip : {0.0, 0.125, 0.5}) {
    std::vector<int64_t> expected;
    const auto first = static_cast<size_t>(skip * 400);
    for (size_t i = first; i < first + 30; ++i) expected.push_back(order[i].second);
    std::sort(expected.begin(), expected.end());
    const auto miner = make_miner("greedy");
    EXPECT_FALSE(miner->uses_posterior());
    EXPECT_EQ(indices(pool, mine(*miner, scored(pool, 30, skip), {}).crops), expected) << skip;
  }
  expect_error([&] { mine(*make_miner("greedy"), scored(pool, 30, 0.95), {}); },
               {"mining.select", "30", "20"});
}

// NTOM on a network that is certain of every outlier: p(K+1) is 1 in float32 for all of the pool.
TEST(GreedyMiner, TakesTheRightOnesWhereAllAreCertain) {
  const std::vector<Crop> pool = numbered(400);
  const auto gap = [](int64_t image) { return 20 + 0.1 * static_cast<double>(image * 77 % 400); };
  MiningTask task = scored(pool, 30, 0.125);
  task.network.features = walk([&](const Crop* crops, int64_t count) {
    const at::Tensor outputs = at::zeros({count, 4});
    for (int64_t i = 0; i < count; ++i) outputs[i][3] = gap(crops[i].image);
    return outputs;
  });
  task.network.id_score = [](const at::Tensor& z) {
    return (*make_score("reject"))({z.narrow(1, 0, 3), z.narrow(1, 3, 1), {}, {}, nullptr});
  };
  std::vector<std::pair<double, int64_t>> order;  // by 1 − p(K+1), in float64
  for (const Crop& crop : pool) order.emplace_back(-3 / (3 + std::exp(gap(crop.image))), crop.image);
  std::sort(order.begin(), order.end());
  std::vector<int64_t> expected;
  for (size_t i = 50; i < 80; ++i) expected.push_back(order[i].second);
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(indices(pool, mine(*make_miner("greedy"), task, {}).crops), expected);
}

TEST(LogitMiner, RanksByTheLastOutput) {
  const std::vector<Crop> pool = numbered(100);
  std::vector<float> rank;
  for (const Crop& crop : pool) {
    float row[kFeatures];
    feature_row(crop.image, row);
    rank.push_back(-std::abs(row[2]));
  }
  const Mined mined = mine(*make_miner("logit"), scored(pool, 10, 0), {});
  EXPECT_EQ(indices(pool, mined.crops), brute_force(pool, rank, 10, 0));
  EXPECT_TRUE(mined.diagnostics.mined_abs_logit.has_value());
}

TEST(Miner, AnUnknownNameIsAnError) {
  expect_error([] { make_miner("tompson"); }, {"mining.miner", "nearest is 'thompson'"});
}

TEST(ClassShares, CountCropsAndBeginWithTheClassMinedMost) {
  ImageSet outliers{
      "", at::zeros({4, 1, 1, 1}, at::kByte), at::tensor({2, 0, 1, 2}, at::kLong), {"a", "b", "c", "d"}};
  const std::vector<ClassShare> shares =
      class_shares(outliers, pool_of({0, 1, 2, 3, 3, 1, 1, 1}), pool_of({1, 0, 3, 3}));
  ASSERT_EQ(shares.size(), 4u);
  const std::tuple<const char*, double, double> expected[] = {
      {"c", 0.375, 0.75}, {"a", 0.5, 0.25}, {"b", 0.125, 0}, {"d", 0, 0}};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(shares[i].name, std::get<0>(expected[i]));
    EXPECT_DOUBLE_EQ(shares[i].pool, std::get<1>(expected[i]));
    EXPECT_DOUBLE_EQ(shares[i].mined, std::get<2>(expected[i]));
  }
  outliers.labels = at::Tensor();
  EXPECT_TRUE(class_shares(outliers, pool_of({0}), pool_of({0})).empty());
}

TEST(ClassShares, AreBounded) {
  ImageSet outliers{"", at::zeros({1000, 1, 1, 1}, at::kByte), at::arange(1000), {}};
  for (int i = 0; i < 1000; ++i) outliers.class_names.push_back(std::to_string(i));
  const std::vector<ClassShare> shares = class_shares(outliers, pool_of({5, 999, 7}), pool_of({999}));
  EXPECT_EQ(shares.size(), 24u);
  EXPECT_EQ(shares[0].name, "999");
}

}  // namespace
}  // namespace poem
