// The figures of one detector on several OOD test sets, and how they are printed. Figures are shares of 1.
//
//   Results results = results_of(id_scores, {{"svhn", svhn_scores}, {"textures", textures_scores}});
//   std::cout << to_table(results);          // in percent
//   std::cout << results.mean.fpr95 << '\n';
#pragma once
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "poem/balance.h"
#include "poem/confusion.h"
#include "poem/metrics.h"

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
    int64_t unsure = 0;  // of the rejected, those from the second threshold up
  };
  double threshold;
  std::vector<Count> sets;  // "id" first
  std::optional<double> unsure_threshold = {};
};

struct Results {
  std::vector<SetResult> sets;
  OodMetrics mean;  // of the five figures over the sets; its counts and threshold are 0
  std::optional<double> id_accuracy;
  std::optional<Confusion> confusion = {};       // of labelled ID images
  std::optional<AtThreshold> at_threshold = {};  // only for the detector's own score
  std::string problem = {};  // why there are no figures, or why they are meaningless; empty if they are sound

  bool has_figures() const { return !std::isnan(mean.auroc); }  // missing figures are NaN and printed as NA
};

// From the figures of at least one set.
Results make_results(std::vector<SetResult> sets, std::optional<double> id_accuracy = std::nullopt);

using SetScores = std::vector<std::pair<std::string, std::vector<double>>>;  // by the name of the set

// From the scores of ID inputs and of OOD sets. If all scores are equal, `problem` says so.
Results results_of(const std::vector<double>& id, const SetScores& ood,
                   const std::optional<Balance>& balance = std::nullopt);

// The same for scores that `score` computed. There are no figures if it could not be fitted or if one of the
// scores is not finite.
Results results_of(const Score& score, const std::vector<double>& id, const SetScores& ood,
                   const std::optional<Balance>& balance = std::nullopt);

// Throws an Error if the results of this score have no figures.
void check_figures(const std::string& score, const Results& results);

// {"sets": {NAME: {fpr95, auroc, aupr_in, aupr_out, detection_error, id_count, ood_count}}, "mean": {the five
// figures}, "id_accuracy": number or null}. Where they are known, also "problem"; "at_threshold":
// {"threshold", "id": {"kept", "rejected"}, "sets": {NAME: the same}}, with "unsure_threshold" and "unsure"
// (of the rejected) if the detector has a second threshold; "classes": [{"name", "images", "accuracy"}];
// "confusion": one list of counts per class, by predicted class. Missing figures are null. Sets keep their
// order.
std::string to_json_text(const Results& results);

// One line per set, then the line `mean`, whose counts are empty. id_accuracy and problem are the same on
// every line; id_accuracy is empty if it is unknown. Missing figures are NA.
std::string to_csv(const Results& results);

// A table in percent for people. Of the classes it shows those with the lowest accuracy.
std::string to_table(const Results& results);

// Several scores on the same sets; at least one.
using ScoreResults = std::vector<std::pair<std::string, Results>>;  // by the name of the score

// {"scores": {SCORE: as above}} and, beside it, the classes.
std::string to_json_text(const ScoreResults& results);
std::string to_csv(const ScoreResults& results);    // as above, with `score` as first column
std::string to_table(const ScoreResults& results);  // the means, one line per score

}  // namespace poem
