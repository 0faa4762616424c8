// Clusters of similar outliers. The pool is divided at random into blocks, one per training step, and the
// normalised features of each block into as many clusters as outliers are to be chosen from it. A miner ranks
// the members of a cluster; best_of_clusters() then puts the best of every cluster first.
//
//   ClusteredPool clusters = walk_clusters(task, [&](const at::Tensor& features, const at::Tensor& cluster) {
//     return task.network.id_score(features).unsqueeze(1);
//   });
//   scores.rank = best_of_clusters(clusters, clusters.columns[0], skipped);
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "poem/mining.h"

namespace poem {

// Lloyd's algorithm on g sets of rows at once, g×n×m; starts from the first k ≤ n rows of each set. A cluster
// that loses its last row keeps its centre.
struct Clustering {
  at::Tensor cluster;  // g×n int64, from 0 to k − 1: the nearest centre, the first of equal ones
  at::Tensor centres;  // g×k×m
};
Clustering k_means(const at::Tensor& rows, int64_t k);

// How many blocks the pool has, how many entries a block has, and how many clusters are made of it.
struct BlockPlan {
  int64_t blocks, rows, clusters;
};
BlockPlan plan_blocks(const MiningTask& task);

// Everything by pool entry.
struct ClusteredPool {
  std::vector<int64_t> cluster;             // numbered through all blocks
  std::vector<std::vector<float>> columns;  // what the visitor returned
  std::vector<float> length;                // ‖φ(x)‖
  std::vector<int64_t> group;  // the nearest cluster of the first block, as one yardstick for all
};

// Returns numbers for rows of features: n×c of n×m `features` and their clusters, n int64 from 0 to
// plan_blocks().clusters − 1.
using ClusterVisit = std::function<at::Tensor(const at::Tensor& features, const at::Tensor& cluster)>;
ClusteredPool walk_clusters(const MiningTask& task, const ClusterVisit& visit);

// Ranks with which mine() takes one entry from each cluster: the one with the highest score after `skipped`
// entries of the pool were passed over, the best ones of each cluster in proportion to its size. The second
// ones of the clusters come next, and so on; among equals the higher score decides.
std::vector<float> best_of_clusters(const ClusteredPool& pool, const std::vector<float>& score,
                                    int64_t skipped);

}  // namespace poem
