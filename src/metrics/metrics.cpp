#include "poem/metrics.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "poem/error.h"

namespace poem {
namespace {

constexpr double kTpr = 0.95;

void check(const std::vector<double>& scores, const char* side) {
  if (scores.empty()) throw Error(side, "there are no scores", "give at least one");
  const auto bad = std::find_if(scores.begin(), scores.end(), [](double x) { return std::isnan(x); });
  if (bad != scores.end()) {
    throw Error(side, fmt::format("the score at index {} is NaN", bad - scores.begin()),
                "remove it or correct its computation");
  }
}

constexpr uint64_t kMiddle = uint64_t{1} << 63;  // the key of 0 and −0

// Ascends while the scores descend. The last bits of a float32 in a float64 are 0, and so are its key's.
uint64_t descending_key(double score) {
  const double size = std::fabs(score);
  uint64_t bits;
  std::memcpy(&bits, &size, sizeof bits);
  return score > 0 ? kMiddle - bits : kMiddle + bits;
}

double score_of_key(uint64_t key) {
  const uint64_t bits = key < kMiddle ? kMiddle - key : key - kMiddle;
  double size;
  std::memcpy(&size, &bits, sizeof size);
  return key > kMiddle ? -size : size;
}

// The highest score first. Radix sort: one pass per 11-bit digit instead of n log n comparisons. A digit that
// is the same in all keys needs no pass.
std::vector<uint64_t> sorted_keys(const std::vector<double>& scores) {
  constexpr int kDigits = 6, kBits = 11;
  constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1;
  std::vector<uint64_t> keys(scores.size()), other(scores.size());
  std::vector<std::array<size_t, kMask + 1>> start(kDigits);
  for (size_t i = 0; i < scores.size(); ++i) {
    keys[i] = descending_key(scores[i]);
    for (int d = 0; d < kDigits; ++d) ++start[d][keys[i] >> (d * kBits) & kMask];
  }
  for (int d = 0; d < kDigits; ++d) {
    if (start[d][keys[0] >> (d * kBits) & kMask] == keys.size()) continue;
    size_t sum = 0;
    for (size_t& place : start[d]) sum += std::exchange(place, sum);
    for (uint64_t key : keys) other[start[d][key >> (d * kBits) & kMask]++] = key;
    keys.swap(other);
  }
  return keys;
}

// How many keys from `from` on equal `key`.
size_t run_length(const std::vector<uint64_t>& keys, size_t from, uint64_t key) {
  size_t end = from;
  while (end < keys.size() && keys[end] == key) ++end;
  return end - from;
}

// One walk over the distinct thresholds from the highest down. The counts of ID and OOD at or above the
// threshold give every metric.
OodMetrics walk(const std::vector<uint64_t>& id, const std::vector<uint64_t>& ood) {
  OodMetrics result;
  result.id_count = static_cast<int64_t>(id.size());
  result.ood_count = static_cast<int64_t>(ood.size());
  const double n = static_cast<double>(id.size()), m = static_cast<double>(ood.size());
  uint64_t twice_wins = 0;  // pairs with ID above OOD count two, ties one
  double error = 0.5;       // of the threshold above every score
  bool found = false;
  for (size_t above_id = 0, above_ood = 0; above_id < id.size() || above_ood < ood.size();) {
    const uint64_t key = above_ood == ood.size() || (above_id < id.size() && id[above_id] < ood[above_ood])
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

OodMetrics ood_metrics(const std::vector<double>& id, const std::vector<double>& ood) {
  check(id, "ID scores");
  check(ood, "OOD scores");
  std::array<std::vector<uint64_t>, 2> keys;
  at::parallel_for(0, 2, 1, [&](int64_t begin, int64_t end) {
    for (int64_t side = begin; side < end; ++side) keys[side] = sorted_keys(side == 0 ? id : ood);
  });
  return walk(keys[0], keys[1]);
}

// Dividing rounds correctly where tpr · n would not.
int64_t count_at_tpr(int64_t n, double tpr) {
  const auto all = static_cast<double>(n);
  auto count = static_cast<int64_t>(tpr * all);
  while (static_cast<double>(count) / all < tpr) ++count;
  while (count > 1 && static_cast<double>(count - 1) / all >= tpr) --count;
  return count;
}

double threshold_at_tpr(std::vector<double> id, double tpr) {
  check(id, "ID scores");
  if (!(tpr > 0 && tpr <= 1)) {
    throw Error("true positive rate", fmt::format("{} is not above 0 and at most 1", tpr), "0.95 is usual");
  }
  const int64_t count = count_at_tpr(static_cast<int64_t>(id.size()), tpr);
  std::nth_element(id.begin(), id.begin() + (count - 1), id.end(), std::greater<double>());
  return id[count - 1];
}

}  // namespace poem
