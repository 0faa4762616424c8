#include "poem/posterior.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "expect_error.h"

namespace poem {
namespace {

at::Tensor random_tensor(uint64_t key, int64_t rows, int64_t width, at::ScalarType type = at::kFloat) {
  Stream stream(1, "features", key);
  at::Tensor tensor = at::empty({rows, width}, at::kDouble);
  double* x = tensor.data_ptr<double>();
  for (int64_t i = 0; i < tensor.numel(); ++i) x[i] = stream.normal() + 0.5;
  return tensor.to(type);
}

at::Tensor random_targets(uint64_t key, int64_t rows) {
  return random_tensor(key, rows, 1, at::kDouble).squeeze(1);
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return a.sub(b).abs().max().item<double>();
}

void expect_same(const Statistics& a, const Statistics& b) {
  EXPECT_LT(largest_difference(a.gram, b.gram), 1e-9);
  EXPECT_LT(largest_difference(a.moment, b.moment), 1e-9);
  EXPECT_DOUBLE_EQ(a.count, b.count);
}

// Solves A x = b for each column of b by Gauss-Jordan elimination with plain loops.
std::vector<std::vector<double>> eliminate(std::vector<std::vector<double>> a,
                                           std::vector<std::vector<double>> b) {
  const size_t m = a.size();
  for (size_t k = 0; k < m; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < m; ++i) {
      if (std::abs(a[i][k]) > std::abs(a[pivot][k])) pivot = i;
    }
    std::swap(a[k], a[pivot]);
    std::swap(b[k], b[pivot]);
    for (size_t i = 0; i < m; ++i) {
      if (i == k) continue;
      const double factor = a[i][k] / a[k][k];
      for (size_t j = 0; j < m; ++j) a[i][j] -= factor * a[k][j];
      for (size_t j = 0; j < b[i].size(); ++j) b[i][j] -= factor * b[k][j];
    }
  }
  for (size_t i = 0; i < m; ++i) {
    for (double& x : b[i]) x /= a[i][i];
  }
  return b;
}

TEST(Posterior, AgreesWithTheNormalEquations) {
  constexpr int64_t kRows = 57, kWidth = 6;
  const at::Tensor features = random_tensor(1, kRows, kWidth);
  const at::Tensor targets = random_targets(2, kRows);
  const PosteriorSettings settings{2.5, 0.7, 3.0};
  const auto x = features.to(at::kDouble);
  std::vector<std::vector<double>> precision(kWidth, std::vector<double>(kWidth)), right = precision;
  for (int64_t i = 0; i < kWidth; ++i) {
    for (int64_t j = 0; j < kWidth; ++j) {
      precision[i][j] = i == j ? 1 / 2.5 : 0;
      right[i][j] = i == j;
      for (int64_t r = 0; r < kRows; ++r) {
        precision[i][j] += x[r][i].item<double>() * x[r][j].item<double>() / 0.7;
      }
    }
    right[i].push_back(0);  // the last column becomes the mean
    for (int64_t r = 0; r < kRows; ++r) {
      right[i].back() += x[r][i].item<double>() * targets[r].item<double>() / 0.7;
    }
  }
  const auto solved = eliminate(precision, right);

  Statistics statistics(kWidth);
  statistics.add(features, targets);
  const Posterior posterior(statistics, settings);
  const at::Tensor covariance = posterior.covariance();
  for (int64_t i = 0; i < kWidth; ++i) {
    EXPECT_NEAR(posterior.mean()[i].item<double>(), solved[i][kWidth], 1e-10);
    for (int64_t j = 0; j < kWidth; ++j) {
      EXPECT_NEAR(covariance[i][j].item<double>(), 3.0 * solved[i][j], 1e-10);
    }
  }
}

TEST(Posterior, OneFeatureHasAClosedForm) {
  Statistics statistics(1);
  statistics.add(at::full({4, 1}, 2.0, at::kFloat), at::full({4}, 3.0, at::kDouble));
  const Posterior posterior(statistics, {20, 0.5, 1});
  const double precision = 4 * 4 / 0.5 + 1 / 20.0;
  EXPECT_DOUBLE_EQ(posterior.mean()[0].item<double>(), (4 * 2 * 3 / 0.5) / precision);
  EXPECT_DOUBLE_EQ(posterior.covariance()[0][0].item<double>(), 1 / precision);
}

TEST(Posterior, WithoutRowsItIsThePrior) {
  const Posterior prior(Statistics(3), {20, 0.5, 2});
  EXPECT_EQ(prior.mean().abs().max().item<double>(), 0);
  EXPECT_LT(largest_difference(prior.covariance(), 40 * at::eye(3, at::kDouble)), 1e-12);
}

TEST(Posterior, DrawsHaveItsMeanAndCovariance) {
  Statistics statistics(3);
  statistics.add(random_tensor(3, 10, 3), random_targets(4, 10));
  const Posterior posterior(statistics, {20, 0.5, 20});
  constexpr int64_t kDraws = 20000;
  Stream stream(7, "draws");
  const at::Tensor draws = posterior.draws(stream, kDraws);
  const at::Tensor covariance = posterior.covariance();
  const at::Tensor centred = draws - posterior.mean().unsqueeze(1);
  const at::Tensor empirical = at::mm(centred, centred.t()) / kDraws;
  for (int i = 0; i < 3; ++i) {
    const double variance = covariance[i][i].item<double>();
    EXPECT_NEAR(centred[i].mean().item<double>(), 0, 5 * std::sqrt(variance / kDraws));
    for (int j = 0; j < 3; ++j) {
      const double c = covariance[i][j].item<double>(), other = covariance[j][j].item<double>();
      const double standard_error = std::sqrt((variance * other + c * c) / kDraws);
      EXPECT_NEAR(empirical[i][j].item<double>(), c, 5 * standard_error) << i << ' ' << j;
    }
  }
}

TEST(Posterior, DrawsAreWhatSingleDrawsGive) {
  Statistics statistics(40);
  statistics.add(random_tensor(5, 100, 40), random_targets(6, 100));
  const Posterior posterior(statistics, {});
  Stream together(8, "draws"), single(8, "draws");
  const at::Tensor draws = posterior.draws(together, 3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(draws.select(1, i).equal(posterior.draw(single)));
  EXPECT_FALSE(draws.select(1, 0).equal(draws.select(1, 1)));
}

TEST(Posterior, SettingsMustBePositive) {
  const Statistics none(2);
  const double nan = std::nan("");
  expect_error([&] { Posterior(none, {0, 0.5, 1}); }, {"posterior.prior_variance", "0"});
  expect_error([&] { Posterior(none, {20, -1, 1}); }, {"posterior.noise_variance", "-1"});
  expect_error([&] { Posterior(none, {20, 0.5, nan}); }, {"posterior.scale", "nan"});
}

TEST(Posterior, ADependentFeatureWithoutPriorIsNamed) {
  at::Tensor features = random_tensor(9, 200, 5);
  features.select(1, 3).copy_(features.select(1, 1));
  Statistics statistics(5);
  statistics.add(features, random_targets(10, 200));
  EXPECT_NO_THROW(Posterior(statistics, {20, 0.5, 1}));
  expect_error([&] { Posterior(statistics, {1e18, 0.5, 1}); }, {"feature 3", "posterior.prior_variance"});
}

TEST(Posterior, SubtractingWhatWasNeverAddedIsAnError) {
  Statistics statistics(4), more(4);
  statistics.add(random_tensor(11, 20, 4), random_targets(12, 20));
  more.add(random_tensor(13, 500, 4), random_targets(14, 500));
  statistics -= more;
  expect_error([&] { Posterior(statistics, {}); }, {"feature 0 is degenerate", "train.learning_rate"});
}

TEST(Statistics, HoldTheProductsInTheLowerTriangle) {
  const at::Tensor features = random_tensor(15, 4500, 70, at::kDouble);  // blocks and panels, one not full
  const at::Tensor targets = random_targets(16, 4500);
  Statistics statistics(70);
  statistics.add(features, targets);
  EXPECT_LT(largest_difference(statistics.gram, features.t().mm(features).tril()), 1e-9);
  EXPECT_LT(largest_difference(statistics.moment, features.t().mv(targets)), 1e-9);
  EXPECT_EQ(statistics.count, 4500);
}

TEST(Statistics, AddingInBlocksIsAddingAtOnce) {
  const at::Tensor features = random_tensor(17, 2100, 9);
  const at::Tensor targets = random_targets(18, 2100);
  Statistics at_once(9), in_blocks(9);
  at_once.add(features, targets);
  for (int64_t first = 0; first < 2100; first += 128) {
    const int64_t rows = std::min<int64_t>(128, 2100 - first);
    in_blocks.add(features.narrow(0, first, rows), targets.narrow(0, first, rows));
  }
  in_blocks.add(features.narrow(0, 0, 0), targets.narrow(0, 0, 0));
  expect_same(at_once, in_blocks);
}

TEST(Statistics, MergeAndSubtract) {
  const at::Tensor features = random_tensor(19, 300, 5);
  const at::Tensor targets = random_targets(20, 300);
  Statistics all(5), first(5), rest(5);
  all.add(features, targets);
  first.add(features.narrow(0, 0, 100), targets.narrow(0, 0, 100));
  rest.add(features.narrow(0, 100, 200), targets.narrow(0, 100, 200));
  Statistics merged(5);
  merged += first;
  merged += rest;
  expect_same(merged, all);
  merged -= rest;
  expect_same(merged, first);
}

TEST(Statistics, CopiesAreTheirOwn) {
  Statistics original(3), assigned(3);
  original.add(random_tensor(30, 20, 3), random_targets(31, 20));
  const at::Tensor gram = original.gram.clone(), moment = original.moment.clone();
  Statistics copy = original;
  assigned = original;
  copy.add(random_tensor(32, 20, 3), random_targets(33, 20));
  assigned += copy;
  EXPECT_TRUE(original.gram.equal(gram));
  EXPECT_TRUE(original.moment.equal(moment));
}

TEST(Statistics, AWeightIsAsManyCopies) {
  const at::Tensor features = random_tensor(21, 50, 4);
  const at::Tensor targets = random_targets(22, 50);
  Statistics weighted(4), copied(4);
  weighted.add(features, 3 * targets, 3);
  for (int i = 0; i < 3; ++i) copied.add(features, targets);
  expect_same(weighted, copied);
}

TEST(Statistics, TakesAnyLayoutAndHalfPrecision) {
  const at::Tensor features = random_tensor(23, 30, 8);
  const at::Tensor targets = random_targets(24, 30);
  Statistics plain(8), transposed(8), half(8), rounded(8);
  plain.add(features, targets);
  transposed.add(features.t().contiguous().t(), targets);
  expect_same(plain, transposed);
  half.add(features.to(at::kHalf), targets);
  rounded.add(features.to(at::kHalf).to(at::kFloat), targets);
  expect_same(half, rounded);
}

TEST(Statistics, WhatIsNotFiniteIsNamed) {
  const at::Tensor targets = random_targets(25, 3000);
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    for (const auto type : {at::kFloat, at::kDouble}) {
      at::Tensor features = random_tensor(26, 3000, 7, type);
      features[2345][6] = bad;
      Statistics statistics(7);
      expect_error([&] { statistics.add(features, targets); }, {"feature 6 of row 2345"});
    }
  }
  const at::Tensor bad_targets = targets.clone();
  bad_targets[12] = std::nan("");
  Statistics statistics(7);
  expect_error([&] { statistics.add(random_tensor(27, 3000, 7), bad_targets); }, {"target of row 12", "nan"});
}

TEST(Statistics, AnotherWidthIsAnError) {
  Statistics statistics(7);
  expect_error([&] { statistics.add(random_tensor(28, 3, 6), random_targets(29, 3)); }, {"6", "7"});
}

}  // namespace
}  // namespace poem
