// The figures of one detector on several OOD test sets, and how they are printed.
//
//   Results results = make_results({{"svhn", ood_metrics(id, svhn)}, …}, id_accuracy);
//   fmt::print("{}", to_table(results));
#pragma once
#include <cmath>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/terminal.h"
#include "poem/balance.h"
#include "poem/confusion.h"

namespace poem {

class Score;

struct SetResult {
  std::string name;
  OodMetrics metrics;
};

// How many images a detector's threshold keeps as known and rejects as unknown.
struct AtThreshold {
  struct Count {
    std::string set;
    int64_t kept, rejected;
  };
  double threshold;
  std::vector<Count> sets;  // "id" first
};

struct Results {
  std::vector<SetResult> sets;
  OodMetrics mean;  // of the five figures over the sets; its counts and threshold are left at 0
  std::optional<double> id_accuracy;
  std::optional<Confusion> confusion = {};  // of labelled ID images
  std::optional<AtThreshold> at_threshold =
      {};                    // where the score is the detector's own and it has a threshold
  std::string problem = {};  // why there are no figures, or why they say nothing; empty where they are sound

  bool has_figures() const { return !std::isnan(mean.auroc); }  // missing ones are NaN, written NA
};

// At least one set.
Results make_results(std::vector<SetResult> sets, std::optional<double> id_accuracy = std::nullopt);

// By the name of the set.
using SetScores = std::vector<std::pair<std::string, std::vector<double>>>;

// The results of these scores of ID inputs and OOD sets. `problem` says so where all are the same.
Results results_of(const std::vector<double>& id, const SetScores& ood,
                   const std::optional<Balance>& balance = std::nullopt);

// The same of what `score` computed. Without figures if it could not be fitted or one is not finite.
Results results_of(const Score& score, const std::vector<double>& id, const SetScores& ood,
                   const std::optional<Balance>& balance = std::nullopt);

// An Error for a score without figures that is the only one asked for.
void check_figures(const std::string& score, const Results& results);

// Shares of 1: {"sets": {NAME: {fpr95, auroc, aupr_in, aupr_out, detection_error, id_count, ood_count}},
// "mean": {the five figures}, "id_accuracy": share or null}, and "problem" where there is one, whose missing
// figures are null. Sets keep their order.
nlohmann::ordered_json to_json(const Results& results);

// The same with, where they are known, "at_threshold": {"threshold", "id": {"kept", "rejected"}, "sets":
// {NAME: the same}}, "classes": [{"name", "images", "accuracy"}] and "confusion": [[images by the class
// named], one a class]. Names that are not UTF-8 are mended.
nlohmann::ordered_json to_full_json(const Results& results);
std::string to_json_text(const Results& results);

// Shares of 1: one line a set, then `mean`, whose counts are empty; id_accuracy repeats, empty when unknown;
// so does problem, with NA for the figures that are missing.
std::string to_csv(const Results& results);

// Percent, as core/text_table.h prints it; of the classes those with the lowest accuracy.
std::string to_table(const Results& results, const Terminal& where = {});

// Several scores on the same sets: at least one.
using ScoreResults = std::vector<std::pair<std::string, Results>>;  // by the score's name

// {"scores": {SCORE: as above}} and beside it the classes; the CSV with a first column `score`; a table of
// the means, one line a score.
std::string to_json_text(const ScoreResults& results);
std::string to_csv(const ScoreResults& results);
std::string to_table(const ScoreResults& results, const Terminal& where = {});

}  // namespace poem
