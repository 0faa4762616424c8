// Miners that choose from clusters of similar outliers: dos and diverse.
#include "mining/clusters.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "expect_error.h"
#include "poem/random.h"

namespace poem {
namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

at::Tensor normal_rows(int64_t count, int64_t width, uint64_t seed) {
  at::Tensor rows = at::empty({count, width});
  Stream stream(seed, "rows");
  for (int64_t i = 0; i < rows.numel(); ++i) rows.data_ptr<float>()[i] = static_cast<float>(stream.normal());
  return rows;
}

Rows unit_rows(const at::Tensor& features, const std::vector<int64_t>& entries) {
  Rows rows;
  for (int64_t entry : entries) {
    Row row;
    for (int64_t j = 0; j < features.size(1); ++j) row.push_back(features[entry][j].item<double>());
    const double length = std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0));
    for (double& x : row) x /= length;
    rows.push_back(row);
  }
  return rows;
}

size_t nearest(const Row& row, const Rows& centres) {
  size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t c = 0; c < centres.size(); ++c) {
    double apart = 0;
    for (size_t j = 0; j < row.size(); ++j) apart += (row[j] - centres[c][j]) * (row[j] - centres[c][j]);
    if (apart < least) {
      least = apart;
      best = c;
    }
  }
  return best;
}

// Lloyd's algorithm in plain loops.
std::vector<size_t> plain_k_means(const Rows& rows, size_t k) {
  Rows centres(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(k));
  for (int round = 0; round < 10; ++round) {
    Rows sums(k, Row(rows[0].size()));
    std::vector<double> count(k);
    for (const Row& row : rows) {
      const size_t c = nearest(row, centres);
      ++count[c];
      for (size_t j = 0; j < row.size(); ++j) sums[c][j] += row[j];
    }
    for (size_t c = 0; c < k; ++c) {
      for (size_t j = 0; j < sums[c].size() && count[c] > 0; ++j) centres[c][j] = sums[c][j] / count[c];
    }
  }
  std::vector<size_t> cluster;
  for (const Row& row : rows) cluster.push_back(nearest(row, centres));
  return cluster;
}

// A pool whose entry i is image i with row i of the features. Features come in blocks of `block` crops.
struct Pool {
  explicit Pool(at::Tensor rows, int64_t select, int64_t block = 100) : features(std::move(rows)) {
    for (int64_t i = 0; i < features.size(0); ++i) task.pool.push_back({i, 1000 + static_cast<uint64_t>(i)});
    task.settings.select = select;
    task.batch = 8;
    task.seed = 5;
    task.epoch = 2;
    task.network.features = [this, block](const std::vector<Crop>& crops, const FeatureVisit& visit) {
      const auto size = static_cast<int64_t>(crops.size());
      for (int64_t first = 0; first < size; first += block) {
        std::vector<int64_t> images;
        for (int64_t i = first; i < std::min(size, first + block); ++i) images.push_back(crops[i].image);
        visit(first, features.index_select(0, at::tensor(images, at::kLong)));
      }
    };
    task.network.id_score = [](const at::Tensor& phi) { return phi.select(1, 0); };
    task.posterior = &prior;
  }
  Pool(const Pool&) = delete;

  Mined mined(const char* miner) const { return mine(*make_miner(miner), task, {}); }
  std::vector<int64_t> images(const char* miner) const {
    std::vector<int64_t> result;
    for (const Crop& crop : mined(miner).crops) result.push_back(crop.image);
    return result;
  }
  // The entries of each block, as the docs say: the pool in random order, cut into equal parts.
  std::vector<std::vector<int64_t>> blocks(int64_t count) const {
    Stream stream(task.seed, "mining-blocks", static_cast<uint64_t>(task.epoch));
    const std::vector<int64_t> order = permutation(features.size(0), stream);
    const size_t rows = order.size() / static_cast<size_t>(count);
    std::vector<std::vector<int64_t>> result;
    for (auto it = order.begin(); it != order.end(); it += static_cast<std::ptrdiff_t>(rows))
      result.emplace_back(it, it + static_cast<std::ptrdiff_t>(rows));
    return result;
  }

  at::Tensor features;
  Posterior prior{Statistics(features.size(1)), {}};
  MiningTask task;
};

// Of each cluster of each block the entry with the highest value(entry, cluster), by brute force.
template <class Value>
std::vector<int64_t> winners(const Pool& pool, int64_t blocks, size_t k, Value value) {
  std::vector<int64_t> chosen;
  for (const auto& entries : pool.blocks(blocks)) {
    const std::vector<size_t> cluster = plain_k_means(unit_rows(pool.features, entries), k);
    for (size_t c = 0; c < k; ++c) {
      int64_t best = -1;
      for (size_t i = 0; i < entries.size(); ++i) {
        if (cluster[i] == c && (best < 0 || value(entries[i], c) > value(best, c))) best = entries[i];
      }
      EXPECT_GE(best, 0) << "an empty cluster: choose another seed";
      chosen.push_back(best);
    }
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

TEST(KMeans, EqualsPlainLoops) {
  const at::Tensor rows = normal_rows(120, 4, 1);
  const Clustering found = k_means(rows.view({3, 40, 4}), 6);
  ASSERT_EQ(found.cluster.sizes(), (at::IntArrayRef{3, 40}));
  for (int64_t set = 0; set < 3; ++set) {
    Rows plain;
    for (int64_t i = 0; i < 40; ++i) {
      const at::Tensor row = rows[set * 40 + i].to(at::kDouble);
      plain.emplace_back(row.data_ptr<double>(), row.data_ptr<double>() + 4);
    }
    const std::vector<size_t> expected = plain_k_means(plain, 6);
    for (int64_t i = 0; i < 40; ++i)
      EXPECT_EQ(found.cluster[set][i].item<int64_t>(), expected[i]) << set << i;
  }
}

TEST(KMeans, EqualRowsAreOneClusterAndTheOthersKeepTheirCentres) {
  const Clustering found = k_means(at::ones({1, 10, 3}), 4);
  EXPECT_TRUE(found.cluster.eq(0).all().item<bool>());
  EXPECT_TRUE(found.centres.equal(at::ones({1, 4, 3})));
}

TEST(KMeans, AsManyClustersAsRowsAreTheRows) {
  const Clustering found = k_means(normal_rows(9, 3, 2).view({1, 9, 3}), 9);
  EXPECT_TRUE(found.cluster.equal(at::arange(9).view({1, 9})));
}

TEST(BestOfClusters, TakesTheBestOfEachAfterTheSkippedShareOfEach) {
  Stream stream(3, "clusters");
  for (const int64_t skipped : {0, 1, 37, 100}) {
    ClusteredPool pool;
    std::vector<float> score;
    std::map<int64_t, std::vector<int64_t>> members;  // by descending score
    for (int64_t i = 0; i < 200; ++i) {
      pool.cluster.push_back(static_cast<int64_t>(stream.below(5) * stream.below(3)));  // of different sizes
      score.push_back(static_cast<float>(stream.below(30)));                            // with ties
      members[pool.cluster.back()].push_back(i);
    }
    const std::vector<float> rank = best_of_clusters(pool, score, skipped);
    EXPECT_EQ(std::count_if(rank.begin(), rank.end(), [](float r) { return r > 1; }), skipped);
    for (auto& [cluster, of] : members) {
      std::stable_sort(of.begin(), of.end(), [&](int64_t a, int64_t b) { return score[a] > score[b]; });
      const auto passed = std::count_if(of.begin(), of.end(), [&](int64_t i) { return rank[i] > 1; });
      EXPECT_NEAR(passed, static_cast<double>(skipped * of.size()) / 200, 1) << cluster;
      for (size_t place = 0; place < of.size(); ++place) {  // the best first, one per whole number
        const auto expected = passed - static_cast<std::ptrdiff_t>(place);
        EXPECT_EQ(std::ceil(rank[of[place]]) - 1, expected) << cluster;
      }
    }
    for (size_t i = 0; i < 200; ++i) {  // of those at the same place the better one is ahead
      for (size_t j = 0; j < 200; ++j) {
        if (std::ceil(rank[i]) == std::ceil(rank[j]) && score[i] > score[j]) {
          EXPECT_GT(rank[i], rank[j]);
        }
      }
    }
  }
}

TEST(DosMiner, MinesTheMostIdLikeOfEachCluster) {
  const Pool pool(normal_rows(240, 5, 3), 40);  // 5 blocks of 48, 8 clusters each
  EXPECT_EQ(pool.images("dos"), winners(pool, 5, 8, [&](int64_t entry, size_t) {
              return pool.features[entry][0].item<double>();
            }));
  EXPECT_TRUE(make_miner("dos")->uses_score());
  EXPECT_FALSE(make_miner("dos")->uses_posterior());
}

TEST(DiverseMiner, MinesTheNearestToTheBoundaryOfEachClusterByADrawOfItsOwn) {
  const Pool pool(normal_rows(240, 5, 4), 40);
  Stream stream(5, "weights", 2);
  const at::Tensor draws = pool.prior.draws(stream, 8);
  EXPECT_EQ(pool.images("diverse"), winners(pool, 5, 8, [&](int64_t entry, size_t cluster) {
              const at::Tensor w = draws.select(1, static_cast<int64_t>(cluster));
              return -std::abs(pool.features[entry].to(at::kDouble).dot(w).item<double>());
            }));
  EXPECT_TRUE(make_miner("diverse")->uses_posterior());
  const MiningDiagnostics d = pool.mined("diverse").diagnostics;
  EXPECT_LT(*d.mined_abs_logit, 0.7 * *d.pool_abs_logit);
  EXPECT_GT(*d.spread, 0);
  EXPECT_LT(*d.draw_overlap, 1);
}

TEST(ClusterMiners, DependOnSeedAndEpochAndNotOnHowFeaturesCome) {
  const at::Tensor rows = normal_rows(300, 5, 5);
  for (const char* miner : {"dos", "diverse"}) {
    const Pool pool(rows, 50), in_small_pieces(rows, 50, 7);
    Pool other(rows, 50);
    const std::vector<int64_t> images = pool.images(miner);
    EXPECT_EQ(images, pool.images(miner));
    EXPECT_EQ(images, in_small_pieces.images(miner));
    other.task.epoch = 3;
    EXPECT_NE(images, other.images(miner));
    other.task.epoch = 2;
    other.task.seed = 6;
    EXPECT_NE(images, other.images(miner));
  }
}

// 190 outliers in one direction, 10 in another. Those of the large group look more like ID and are nearer to
// the boundary of every draw: they are shorter.
TEST(ClusterMiners, MineASmallGroupThatTheOthersMiss) {
  at::Tensor rows = normal_rows(200, 4, 6) * 0.01;
  for (int64_t i = 0; i < 200; ++i) rows[i][i < 10 ? 1 : 0] += i < 10 ? 50 : 1;
  const auto of_small_group = [](const std::vector<int64_t>& images) {
    return std::count_if(images.begin(), images.end(), [](int64_t image) { return image < 10; });
  };
  Pool pool(rows, 20);
  pool.task.batch = 20;  // one block
  EXPECT_EQ(of_small_group(pool.images("thompson")), 0);
  EXPECT_EQ(of_small_group(pool.images("greedy")), 0);
  EXPECT_GE(of_small_group(pool.images("diverse")), 1);
  EXPECT_GE(of_small_group(pool.images("dos")), 1);
}

TEST(ClusterMiners, MineEverythingIfTheWholePoolIsWanted) {
  for (const int64_t size : {1, 7, 8, 9, 61}) {  // with and without a last block to fill up
    std::vector<int64_t> all(size);
    std::iota(all.begin(), all.end(), int64_t{0});
    for (const char* miner : {"dos", "diverse"})
      EXPECT_EQ(Pool(normal_rows(size, 3, 7), size).images(miner), all) << miner << size;
  }
}

TEST(ClusterMiners, ChooseAnyOfEqualOutliers) {
  for (const float value : {1.f, 0.f}) {  // 0: no direction at all
    for (const char* miner : {"dos", "diverse"}) {
      const std::vector<int64_t> images = Pool(at::full({100, 3}, value), 30).images(miner);
      EXPECT_EQ(std::set<int64_t>(images.begin(), images.end()).size(), 30u);
    }
  }
}

TEST(ClusterMiners, SkipAShareOfEachClusterAndTakeAShareAtRandom) {
  const at::Tensor rows = normal_rows(240, 5, 8);
  Pool pool(rows, 40);
  pool.task.settings.skip = 0.25;
  const std::vector<int64_t> first = Pool(rows, 40).images("dos"), second = pool.images("dos");
  std::vector<int64_t> both;
  std::set_intersection(first.begin(), first.end(), second.begin(), second.end(), std::back_inserter(both));
  EXPECT_EQ(second.size(), 40u);
  EXPECT_LE(both.size(), 8u);  // all but the best of a few small clusters are others
  pool.task.settings.skip = 0;
  pool.task.settings.random = 0.5;  // 20 from clusters: 3 blocks of 80, 7 clusters each
  EXPECT_EQ(plan_blocks(pool.task).clusters, 7);
  const std::vector<int64_t> half = pool.images("diverse");
  EXPECT_EQ(std::set<int64_t>(half.begin(), half.end()).size(), 40u);
}

TEST(ClusterMiners, BoundTheirBlocks) {
  Pool pool(at::zeros({1, 1}), 10);
  pool.task.pool.resize(400000);
  const BlockPlan few = plan_blocks(pool.task);
  EXPECT_LE(few.rows, 8192);
  EXPECT_GE(few.blocks * few.rows, 400000);
  EXPECT_GE(few.blocks * few.clusters, 10);
  pool.task.settings.select = 50000;
  pool.task.batch = 64;
  const BlockPlan paper =
      plan_blocks(pool.task);  // a block per step, as many clusters as a step has outliers
  EXPECT_EQ(paper.blocks, 782);
  EXPECT_EQ(paper.rows, 512);
  EXPECT_EQ(paper.clusters, 64);
}

TEST(ClusterMiners, RefuseScoresThatAreNotNumbers) {
  Pool pool(normal_rows(50, 3, 9), 10);
  pool.features[7][0] = std::numeric_limits<float>::quiet_NaN();
  for (const char* miner : {"dos", "diverse"}) expect_error([&] { pool.mined(miner); }, {"index 7 is NaN"});
}

TEST(ClusterMiners, TellLengthsAndHowManyClustersWereMined) {
  const Pool pool(normal_rows(240, 5, 3), 40);
  double sum = 0, mined_sum = 0;
  const auto length = [&](int64_t i) { return pool.features[i].to(at::kDouble).norm().item<double>(); };
  for (int64_t i = 0; i < 240; ++i) sum += length(i);
  for (const char* miner : {"dos", "diverse", "thompson"}) {
    mined_sum = 0;
    for (int64_t i : pool.images(miner)) mined_sum += length(i);
    const MiningDiagnostics d = pool.mined(miner).diagnostics;
    EXPECT_NEAR(*d.pool_length, sum / 240, 1e-5) << miner;
    EXPECT_NEAR(*d.mined_length, mined_sum / 40, 1e-5) << miner;
    EXPECT_EQ(d.mined_clusters.has_value(), std::string(miner) != "thompson");
    if (d.mined_clusters) {
      EXPECT_GT(*d.mined_clusters, 4) << miner;
      EXPECT_LE(*d.mined_clusters, 8) << miner;
    }
  }
}

struct Given : Miner {
  PoolScores scores;
  PoolScores score(const MiningTask&) const override { return scores; }
};

TEST(Mine, TheEffectiveNumberOfClustersIsTheExponentialOfTheirEntropy) {
  Given miner;
  miner.scores.rank = {5, 4, 3, 2, 1, 0};
  miner.scores.cluster = {0, 1, 2, 2, 0, 7};
  const MiningDiagnostics d = mine(miner, Pool(at::zeros({6, 1}), 4).task, {}).diagnostics;
  EXPECT_NEAR(*d.mined_clusters, std::exp(0.5 * std::log(4.0) + 0.5 * std::log(2.0)), 1e-12);  // ¼ ¼ ½
  EXPECT_NEAR(*d.pool_clusters, std::exp(2.0 / 3 * std::log(3.0) + 1.0 / 3 * std::log(6.0)), 1e-12);
}

}  // namespace
}  // namespace poem
