#include "poem/mine_features.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/file.h"
#include "core/npy.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace poem {
namespace {

at::Tensor cloud(uint64_t key, int64_t rows, double centre) {
  Stream stream(1, "cloud", key);
  at::Tensor features = at::empty({rows, 4}, at::kFloat);
  float* x = features.data_ptr<float>();
  for (int64_t i = 0; i < features.numel(); ++i) x[i] = static_cast<float>(centre + stream.normal());
  return features;
}

const PosteriorSettings kSettings;

TEST(MineFeatures, OrdersThePoolByTheBoundaryScoreOfTheDraw) {
  const at::Tensor id = cloud(1, 300, -1), outliers = cloud(2, 200, 1);
  at::Tensor pool = cloud(3, 5000, 0.5);
  pool.narrow(0, 2000, 1000).copy_(pool.narrow(0, 0, 1000));  // ties
  const MinedFeatures mined = mine_features(id, outliers, pool, 700, 5, kSettings);

  std::vector<float> distance;
  const at::Tensor x = pool.to(at::kDouble);
  for (int64_t row = 0; row < 5000; ++row) {
    double logit = 0;
    for (int64_t j = 0; j < 4; ++j) logit += x[row][j].item<double>() * mined.weights[j].item<double>();
    EXPECT_NEAR(mined.logits[row].item<float>(), logit, 1e-5);
    distance.push_back(std::abs(mined.logits[row].item<float>()));
  }
  std::vector<int64_t> order(5000);
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return distance[a] < distance[b]; });
  order.resize(700);
  EXPECT_EQ(mined.chosen, order);
}

TEST(MineFeatures, TheDrawTellsIdFromOutliers) {
  const at::Tensor id = cloud(4, 500, -1), outliers = cloud(5, 500, 1);
  const MinedFeatures mined = mine_features(id, outliers, at::cat({id, outliers}), 10, 5, kSettings);
  EXPECT_LT(mined.logits.narrow(0, 0, 500).mean().item<float>(), -1);
  EXPECT_GT(mined.logits.narrow(0, 500, 500).mean().item<float>(), 1);
}

TEST(MineFeatures, IsAFunctionOfTheSeed) {
  const at::Tensor id = cloud(6, 50, -1), outliers = cloud(7, 50, 1), pool = cloud(8, 100, 0);
  const MinedFeatures a = mine_features(id, outliers, pool, 10, 5, kSettings);
  const MinedFeatures same = mine_features(id, outliers, pool, 10, 5, kSettings);
  const MinedFeatures other = mine_features(id, outliers, pool, 10, 6, kSettings);
  EXPECT_TRUE(a.weights.equal(same.weights));
  EXPECT_EQ(a.chosen, same.chosen);
  EXPECT_FALSE(a.weights.equal(other.weights));
}

TEST(MineFeatures, SizesThatDoNotFitAreErrors) {
  const at::Tensor rows = cloud(9, 20, 0), narrow = rows.narrow(1, 0, 3);
  expect_error([&] { mine_features(rows, rows, rows, 21, 1, kSettings); },
               {"selection", "cannot select 21 rows from a pool of 20", "1 to 20"});
  expect_error([&] { mine_features(rows, rows, rows, 0, 1, kSettings); },
               {"selection", "cannot select 0 rows"});
  expect_error([&] { mine_features(rows, rows, narrow, 1, 1, kSettings); }, {"the pool 3 features"});
  expect_error([&] { mine_features(rows, narrow, rows, 1, 1, kSettings); }, {"outliers 3"});
}

TEST(MineFeatures, ValuesThatAreNotFiniteAreErrorsThatNameThem) {
  const at::Tensor rows = cloud(9, 20, 0);
  at::Tensor bad = rows.clone();
  bad[7][2] = std::nanf("");
  expect_error([&] { mine_features(bad, rows, rows, 1, 1, kSettings); },
               {"id:", "feature 2 of row 7 is nan"});
  expect_error([&] { mine_features(rows, bad, rows, 1, 1, kSettings); },
               {"outliers:", "feature 2 of row 7 is nan"});
  expect_error([&] { mine_features(rows, rows, bad, 1, 1, kSettings); },
               {"pool:", "feature 2 of row 7 is nan"});
  const at::Tensor huge = rows.to(at::kDouble) * 1e300;
  expect_error([&] { mine_features(rows, rows, huge, 1, 1, kSettings); }, {"pool:", "exceed float32"});
}

TEST(ReadFeatures, TakesRowsOfFloatsAndNothingElse) {
  TemporaryFolder folder;
  const std::string path = folder / "f.npy";
  write_npy(path, cloud(10, 6, 0).to(at::kDouble));
  EXPECT_EQ(read_features(path).size(0), 6);
  at::Tensor bad = cloud(11, 5000, 0);
  bad[4321][2] = std::nan("");
  write_npy(path, bad);
  expect_error([&] { read_features(path); }, {"f.npy", "feature 2 of row 4321 is nan"});
  write_npy(path, at::ones({5}));
  expect_error([&] { read_features(path); }, {"f.npy", "1 dimensions of float32"});
  write_npy(path, at::ones({5, 2}, at::kLong));
  expect_error([&] { read_features(path); }, {"f.npy", "int64"});
  write_npy(path, at::ones({0, 2}));
  expect_error([&] { read_features(path); }, {"f.npy", "0 rows of 2"});
}

}  // namespace
}  // namespace poem
