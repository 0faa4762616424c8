// What a detector says of every test image, as a table for other programs.
//
//   write_file("scores.csv", scores_csv(sets, detector, scores, test));
//
//   set,name,class,predicted,verdict,energy
//   id,cat/1.png,cat,cat,known,-3.25
//   digits,17,,dog,unknown,-9.5
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "poem/evaluate.h"

namespace poem {

// `sets` as score_sets() made them of these images, with one column a score. `name` is ImageSet::title(),
// `class` what the source says. Empty where it is not known: the verdict too, if the detector has no
// threshold or its own score is not among `scores`.
std::string scores_csv(const std::vector<ScoredSet>& sets, const Detector& detector,
                       const std::vector<std::shared_ptr<Score>>& scores, const TestData& test);

}  // namespace poem
