// The verdict and the scores of every test image, as a table for other programs and for poem metrics.
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

// `sets` as score_sets() made them of these images, with one column per score. `name` is ImageSet::title(),
// `class` is the label of the source. Unknown fields are empty; so is the verdict if the detector has no
// threshold or its own score is not among `scores`.
std::string scores_csv(const std::vector<ScoredSet>& sets, const Detector& detector,
                       const std::vector<std::shared_ptr<Score>>& scores, const TestData& test);

}  // namespace poem
