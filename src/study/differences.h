// Whether two methods of a study differ by more than their seeds do: paired differences over the seeds that
// both have, with t-intervals.
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
  size_t seeds;                // that it and the best have in common
  double mean;                 // its figure minus the best's, in percent or minutes
  std::optional<double> half;  // half the interval's width; empty for one seed
  bool told_apart() const { return half && (mean > *half || mean < -*half); }
};

struct Differences {
  size_t best;  // the method with the best mean
  // Each interval's share: 0.95 for all of them together, by Bonferroni over all pairs of methods, since the
  // best is chosen by the same figures.
  double level;
  std::vector<Difference> others;
};

// Empty unless two methods have the figure. The best is chosen among those with the most
// seeds.
std::optional<Differences> differences_from_best(const Study& study, const std::vector<CellResult>& results,
                                                 size_t setting, const StudyColumn& column);

// P(|T| ≤ t) = share for Student's T with so many degrees of freedom.
double student_quantile(double share, int64_t freedom);

}  // namespace poem
