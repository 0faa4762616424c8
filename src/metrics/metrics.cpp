#include "metrics/metrics.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include "core/error.h"
#include "core/float_key.h"

namespace poem {
namespace {

constexpr double kTpr = 0.95;

void check(const std::vector<float>& scores, const char* side) {
  if (scores.empty()) throw Error(side, "there are none", "give at least one score");
  const auto bad = std::find_if(scores.begin(), scores.end(), [](float x) { return std::isnan(x); });
  if (bad != scores.end()) {
    throw Error(side, fmt::format("the score at index {} is NaN", bad - scores.begin()),
                "remove it or mend what computed it");
  }
}

// The highest score first. Radix sort: three passes over 11-bit digits instead of n log n comparisons.
std::vector<uint32_t> sorted_keys(const std::vector<float>& scores) {
  constexpr int kDigits = 3, kBits = 11;
  constexpr uint32_t kMask = (1u << kBits) - 1;
  std::vector<uint32_t> keys(scores.size()), other(scores.size());
  std::array<std::array<size_t, kMask + 1>, kDigits> start{};
  for (size_t i = 0; i < scores.size(); ++i) {
    keys[i] = descending_key(scores[i]);
    for (int d = 0; d < kDigits; ++d) ++start[d][keys[i] >> (d * kBits) & kMask];
  }
  for (int d = 0; d < kDigits; ++d) {
    size_t sum = 0;
    for (size_t& place : start[d]) sum += std::exchange(place, sum);
    for (uint32_t key : keys) other[start[d][key >> (d * kBits) & kMask]++] = key;
    keys.swap(other);
  }
  return keys;
}

// How many keys from `from` on equal `key`.
size_t run_length(const std::vector<uint32_t>& keys, size_t from, uint32_t key) {
  size_t end = from;
  while (end < keys.size() && keys[end] == key) ++end;
  return end - from;
}

// One walk over the distinct thresholds from the highest down. The counts of ID and OOD at or above the
// threshold give every metric.
OodMetrics walk(const std::vector<uint32_t>& id, const std::vector<uint32_t>& ood) {
  OodMetrics result;
  result.id_count = static_cast<int64_t>(id.size());
  result.ood_count = static_cast<int64_t>(ood.size());
  const double n = static_cast<double>(id.size()), m = static_cast<double>(ood.size());
  uint64_t twice_wins = 0;  // pairs with ID above OOD count two, ties one
  double error = 0.5;       // of the threshold above every score
  bool found = false;
  for (size_t above_id = 0, above_ood = 0; above_id < id.size() || above_ood < ood.size();) {
    const uint32_t key = above_ood == ood.size() || (above_id < id.size() && id[above_id] < ood[above_ood])
                             ? id[above_id]
                             : ood[above_ood];
    const size_t here_id = run_length(id, above_id, key), here_ood = run_length(ood, above_ood, key);
    if (here_ood > 0) {  // OOD positive: recall and precision of "score ≤ threshold"
      const double hits = m - static_cast<double>(above_ood), misses = n - static_cast<double>(above_id);
      result.aupr_out += static_cast<double>(here_ood) * hits / (hits + misses);
    }
    above_id += here_id;
    above_ood += here_ood;
    const double hits = static_cast<double>(above_id), misses = static_cast<double>(above_ood);
    if (here_id > 0) result.aupr_in += static_cast<double>(here_id) * hits / (hits + misses);
    twice_wins += here_id * (2 * (ood.size() - above_ood) + here_ood);
    error = std::min(error, 0.5 * (1 - hits / n) + 0.5 * misses / m);
    if (!found && hits / n >= kTpr) {
      found = true;
      result.threshold = score_of_key(key);
      result.fpr95 = misses / m;
    }
  }
  result.auroc = static_cast<double>(twice_wins) / (2 * n * m);
  result.aupr_in /= n;
  result.aupr_out /= m;
  result.detection_error = error;
  return result;
}

}  // namespace

OodMetrics ood_metrics(const std::vector<float>& id, const std::vector<float>& ood) {
  check(id, "ID scores");
  check(ood, "OOD scores");
  std::array<std::vector<uint32_t>, 2> keys;
  at::parallel_for(0, 2, 1, [&](int64_t begin, int64_t end) {
    for (int64_t side = begin; side < end; ++side) keys[side] = sorted_keys(side == 0 ? id : ood);
  });
  return walk(keys[0], keys[1]);
}

float threshold_at_tpr(std::vector<float> id, double tpr) {
  check(id, "ID scores");
  if (!(tpr > 0 && tpr <= 1)) {
    throw Error("true positive rate", fmt::format("{} is not above 0 and at most 1", tpr), "0.95 is usual");
  }
  // The smallest count whose share reaches tpr; dividing rounds correctly where tpr · n would not.
  const double n = static_cast<double>(id.size());
  auto count = static_cast<int64_t>(tpr * n);
  while (static_cast<double>(count) / n < tpr) ++count;
  while (count > 1 && static_cast<double>(count - 1) / n >= tpr) --count;
  std::nth_element(id.begin(), id.begin() + (count - 1), id.end(), std::greater<float>());
  return id[count - 1];
}

}  // namespace poem
