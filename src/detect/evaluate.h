// A detector against test sets.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "detect/detector.h"
#include "detect/results.h"

namespace poem {

// An Error unless all sets have so many channels and every class of `id` is among `class_names`. Classes are
// matched by name; where one side has no names but 0, 1, 2, …, labels are positions.
void check_fits(int64_t channels, const std::vector<std::string>& class_names, const ImageSet& id,
                const std::vector<std::pair<std::string, ImageSet>>& ood);

// Scores the ID images and every OOD set with `score`; sets that do not fit the network are an Error.
// Labelled ID images give the accuracy.
Results evaluate(const Detector& detector, const std::string& score, const ImageSet& id,
                 const std::vector<std::pair<std::string, ImageSet>>& ood);

}  // namespace poem
