// A detector against test sets.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "detect/detector.h"
#include "detect/results.h"

namespace poem {

// Scores the ID images and every OOD set with `score`. Labelled ID images must have labels below the
// detector's number of classes (an Error otherwise) and give the accuracy.
Results evaluate(const Detector& detector, const std::string& score, const ImageSet& id,
                 const std::vector<std::pair<std::string, ImageSet>>& ood);

}  // namespace poem
