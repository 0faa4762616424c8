// Metrics at a fixed ratio of ID to OOD scores. AUPR depends on that ratio.
//
//   const std::optional<Balance> balance = parse_balance("1:1", /*seed=*/0);
//   OodMetrics metrics = ood_metrics(id_scores, ood_scores, balance);   // with the counts that were used
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "poem/metrics.h"

namespace poem {

struct Balance {
  int64_t id, ood;  // the ratio
  uint64_t seed;    // decides which scores are used
};

// "ID:OOD" in whole numbers from 1 to a million; empty text: no balance. Any other text is an Error.
std::optional<Balance> parse_balance(const std::string& text, uint64_t seed);

// The metrics of as many scores as the ratio allows. The seed and the counts alone decide which scores those
// are. Without a balance, all scores are used. Too few scores for the ratio are an Error.
OodMetrics ood_metrics(const std::vector<double>& id, const std::vector<double>& ood,
                       const std::optional<Balance>& balance);

}  // namespace poem
