#include "mining/clusters.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/float_key.h"
#include "poem/random.h"

namespace poem {
namespace {

constexpr int kRounds = 10;             // of Lloyd's algorithm: few points change their cluster after that
constexpr int64_t kRowsAtATime = 8192;  // bounds the memory; also the largest block
constexpr double kTiny = 1e-12;         // instead of a length of 0

int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// ‖x − c‖² without ‖x‖², which does not change the order.
at::Tensor nearest(const at::Tensor& rows, const at::Tensor& centres) {
  return at::baddbmm(centres.square().sum(2).unsqueeze(1), rows, centres.transpose(1, 2), 1, -2).argmin(2);
}

// The pool in random order, cut into blocks of equal size. The last block is filled up with entries of the
// first.
std::vector<int64_t> block_order(const MiningTask& task, const BlockPlan& plan) {
  const auto size = static_cast<int64_t>(task.pool.size());
  Stream stream(task.seed, "mining-blocks", static_cast<uint64_t>(task.epoch));
  const std::vector<int64_t> mixed = permutation(size, stream);
  std::vector<int64_t> order(plan.blocks * plan.rows);
  for (size_t i = 0; i < order.size(); ++i) order[i] = mixed[i % mixed.size()];
  return order;
}

// What is known of some blocks; on the device until all are done, so that none is waited for.
struct Part {
  at::Tensor cluster, columns, length, group;
};

// Puts rows in block order to the pool's entries.
template <class T>
void scatter(const at::Tensor& values, const int64_t* entries, std::vector<T>& out) {
  const at::Tensor here = values.to(at::kCPU, c10::CppTypeToScalarType<T>::value).contiguous();
  const T* in = here.data_ptr<T>();
  for (int64_t i = 0; i < here.numel(); ++i) out[entries[i]] = in[i];
}

ClusteredPool by_entry(const std::vector<Part>& parts, const std::vector<int64_t>& order,
                       const BlockPlan& plan, size_t size) {
  ClusteredPool pool;
  pool.cluster.resize(size);
  pool.length.resize(size);
  pool.group.resize(size);
  pool.columns.resize(parts.front().columns.size(1), std::vector<float>(size));
  int64_t done = 0;
  for (const Part& part : parts) {
    const int64_t* entries = &order[done];
    const int64_t rows = part.length.size(0), block = done / plan.rows;
    const at::Tensor first = at::arange(block, block + rows / plan.rows, at::kLong) * plan.clusters;
    scatter(part.cluster.cpu() + first.unsqueeze(1), entries, pool.cluster);
    scatter(part.length, entries, pool.length);
    scatter(part.group, entries, pool.group);
    for (size_t c = 0; c < pool.columns.size(); ++c)
      scatter(part.columns.select(1, static_cast<int64_t>(c)), entries, pool.columns[c]);
    done += rows;
  }
  return pool;
}

}  // namespace

Clustering k_means(const at::Tensor& rows, int64_t k) {
  at::Tensor centres = rows.narrow(1, 0, k);
  const at::Tensor names = at::arange(k, rows.options().dtype(at::kLong)).view({1, k, 1});
  for (int round = 0; round < kRounds; ++round) {
    // Sums as a matrix product: in the same order every time, also on a GPU.
    const at::Tensor members = (nearest(rows, centres).unsqueeze(1) == names).to(rows.scalar_type());
    const at::Tensor count = members.sum(2, /*keepdim=*/true);
    centres = at::where(count > 0, members.bmm(rows) / count.clamp_min(1), centres);
  }
  return {nearest(rows, centres), centres};
}

BlockPlan plan_blocks(const MiningTask& task) {
  const auto size = static_cast<int64_t>(task.pool.size());
  const int64_t wanted = std::max<int64_t>(1, task.settings.select - task.settings.random_count());
  const int64_t blocks = std::max(divided_up(wanted, task.batch), divided_up(size, kRowsAtATime));
  const int64_t rows = divided_up(size, blocks);
  return {blocks, rows, std::min(rows, divided_up(wanted, blocks))};
}

ClusteredPool walk_clusters(const MiningTask& task, const ClusterVisit& visit) {
  const BlockPlan plan = plan_blocks(task);
  const std::vector<int64_t> order = block_order(task, plan);
  std::vector<Crop> crops;
  crops.reserve(order.size());
  for (int64_t i : order) crops.push_back(task.pool[i]);

  std::vector<Part> parts;
  at::Tensor yardstick;                               // the centres of the first block
  at::Tensor waiting;                                 // features of blocks that are not complete yet
  const auto add = [&](const at::Tensor& features) {  // of some whole blocks
    const at::Tensor length = features.norm(2, 1, /*keepdim=*/true);
    const at::Tensor unit = (features / length.clamp_min(kTiny)).view({-1, plan.rows, features.size(1)});
    const Clustering found = k_means(unit, plan.clusters);
    if (!yardstick.defined()) yardstick = found.centres.narrow(0, 0, 1);
    const at::Tensor group = nearest(unit.reshape({1, -1, unit.size(2)}), yardstick);
    parts.push_back(
        {found.cluster, visit(features, found.cluster.view(-1)), length.squeeze(1), group.squeeze(0)});
  };
  task.network.features(crops, [&](int64_t first, const at::Tensor& features) {
    const at::Tensor rows = features.to(at::kFloat);
    waiting = waiting.defined() ? at::cat({waiting, rows}) : rows;
    const bool last = first + features.size(0) == static_cast<int64_t>(crops.size());
    if (waiting.size(0) < kRowsAtATime && !last) return;
    const int64_t whole = waiting.size(0) / plan.rows * plan.rows;
    add(waiting.narrow(0, 0, whole));
    waiting = waiting.narrow(0, whole, waiting.size(0) - whole).clone();
  });
  return by_entry(parts, order, plan, task.pool.size());
}

std::vector<float> best_of_clusters(const ClusteredPool& pool, const std::vector<float>& score,
                                    int64_t skipped) {
  const auto size = static_cast<int64_t>(score.size());
  std::vector<int64_t> members(1 + *std::max_element(pool.cluster.begin(), pool.cluster.end()));
  for (int64_t cluster : pool.cluster) ++members[cluster];
  // The place of a cluster's next entry. Places below 0 are skipped, `skipped` in all.
  std::vector<int64_t> place(members.size());
  int64_t before = 0;
  for (size_t c = 0; c < members.size(); before += members[c++])
    place[c] = skipped * before / size - skipped * (before + members[c]) / size;

  std::vector<int64_t> order(size);
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return descending_key(score[a]) < descending_key(score[b]);  // which also orders NaN
  });
  std::vector<float> rank(size);
  for (int64_t i = 0; i < size; ++i) {
    const int64_t entry = order[i];
    const double share = 1 - static_cast<double>(i) / static_cast<double>(size);  // in (0, 1]
    rank[entry] = static_cast<float>(share - static_cast<double>(place[pool.cluster[entry]]++));
    if (std::isnan(score[entry])) rank[entry] = score[entry];  // mine() refuses it
  }
  return rank;
}

}  // namespace poem
