// The figures of one detector on several OOD test sets, and how they are printed.
//
//   Results results = make_results({{"svhn", ood_metrics(id, svhn)}, …}, id_accuracy);
//   fmt::print("{}", to_table(results));
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/terminal.h"
#include "metrics/metrics.h"

namespace poem {

struct SetResult {
  std::string name;
  OodMetrics metrics;
};

struct Results {
  std::vector<SetResult> sets;
  OodMetrics mean;  // of the five figures over the sets; its counts and threshold are left at 0
  std::optional<double> id_accuracy;
};

// At least one set.
Results make_results(std::vector<SetResult> sets, std::optional<double> id_accuracy = std::nullopt);

// Shares of 1: {"sets": {NAME: {fpr95, auroc, aupr_in, aupr_out, detection_error, id_count, ood_count}},
// "mean": {the five figures}, "id_accuracy": share or null}. Sets keep their order.
nlohmann::ordered_json to_json(const Results& results);
std::string to_json_text(const Results& results);  // set names that are not UTF-8 are mended

// Shares of 1: one line a set, then `mean`, whose counts are empty; id_accuracy repeats, empty when unknown.
std::string to_csv(const Results& results);

// Percent, as core/text_table.h prints it.
std::string to_table(const Results& results, const Terminal& where = {});

// Several scores on the same sets: at least one.
using ScoreResults = std::vector<std::pair<std::string, Results>>;  // by the score's name

// {"scores": {SCORE: as above}}; the CSV with a first column `score`; a table of the means, one line a score.
std::string to_json_text(const ScoreResults& results);
std::string to_csv(const ScoreResults& results);
std::string to_table(const ScoreResults& results, const Terminal& where = {});

}  // namespace poem
