// Metrics at a given ratio of ID to OOD, since AUPR depends on it.
//
//   const std::optional<Balance> balance = parse_balance("1:1", /*seed=*/0);
//   OodMetrics metrics = ood_metrics(id_scores, ood_scores, balance);   // its counts are those that were
//   used
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "poem/metrics.h"

namespace poem {

struct Balance {
  int64_t id, ood;  // the ratio
  uint64_t seed;    // decides which scores are taken
};

// "ID:OOD", whole numbers from 1 to a million; empty: none. Anything else is an Error that names --balance.
std::optional<Balance> parse_balance(const std::string& text, uint64_t seed);

// Of as many scores as the ratio allows, chosen at random by the seed and the counts alone; of all without a
// balance. Too few scores for the ratio are an Error.
OodMetrics ood_metrics(const std::vector<double>& id, const std::vector<double>& ood,
                       const std::optional<Balance>& balance);

}  // namespace poem
