// Images that a run is tested with, but that it also trains on.
//
//   warn_of_leaks(training, test);   // one line in the log, if there are any
#pragma once
#include "poem/evaluate.h"
#include "train/data.h"

namespace poem {

// Looks for images of the test sets in the training set and among the outliers, by their pixels as they were
// read. Leaves out worlds that are drawn on demand, and mapped files that do not fit into memory.
void warn_of_leaks(const TrainingData& training, const TestData& test);

}  // namespace poem
