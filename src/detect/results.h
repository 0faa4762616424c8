// Figures of a detector (or of plain scores) against several OOD sets: per set, their unweighted mean, and as
// JSON, CSV or a table for the terminal.
#pragma once
#include <ATen/core/Tensor.h>

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "metrics/metrics.h"

namespace poem {

struct SetResult {
  std::string name;
  OodMetrics metrics;
};

struct Results {
  std::vector<SetResult> sets;
  OodMetrics mean;                    // over sets, unweighted; counts are sums
  std::optional<double> id_accuracy;  // empty where the ID images have no labels
};

Results make_results(std::vector<SetResult> sets, std::optional<double> id_accuracy);

// Shares of 1: {"id_accuracy", "mean": {fpr95, auroc, aupr_in, aupr_out, detection_error}, "sets": {NAME: {…,
// counts}}}.
nlohmann::json to_json(const Results& results);
std::string to_csv(const Results& results);    // shares of 1, a row a set, the mean last
std::string to_table(const Results& results);  // percent

// A tensor of scores as the metrics take them.
std::vector<float> to_floats(const at::Tensor& scores);

}  // namespace poem
