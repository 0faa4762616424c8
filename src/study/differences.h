// Do two methods of a study differ by more than the seeds explain? Paired differences over the seeds that
// both methods have, with t-intervals.
//
//   const auto differences = differences_from_best(study, results.cells, setting, study_column("fpr95"));
//   for (const Difference& d : differences->others) …
#pragma once
#include <optional>
#include <vector>

#include "study/study_results.h"

namespace poem {

struct Difference {
  size_t method;
  size_t seeds;                // how many seeds this method and the best one share
  double mean;                 // its figure minus the best one's, in percent or minutes
  std::optional<double> half;  // half the interval's width; empty for one seed
  bool told_apart() const { return half && (mean > *half || mean < -*half); }
};

struct Differences {
  size_t best;  // the method with the best mean
  // Confidence of each interval, such that all of them together have 0.95: Bonferroni over all pairs of
  // methods, because the best method is chosen by the same figures.
  double level;
  std::vector<Difference> others;
};

// Empty if fewer than two methods have the figure. The best method is chosen among those that have the most
// seeds.
std::optional<Differences> differences_from_best(const Study& study, const std::vector<CellResult>& results,
                                                 size_t setting, const StudyColumn& column);

// The t for which P(|T| ≤ t) = share, where T has Student's distribution with `freedom` degrees of freedom.
double student_quantile(double share, int64_t freedom);

}  // namespace poem
