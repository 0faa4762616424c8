// Images that a run has in two roles: it tests with them but also trains on them, or they are ID images but
// also outliers.
//
//   warn_of_leaks(training, test, config.data.folder);   // at most one line in the log of each kind
#pragma once
#include <optional>
#include <string>

#include "poem/evaluate.h"
#include "train/data.h"

namespace poem {

// Looks for images of the test sets in the training set and among the outliers, and for training images among
// the outliers: by their pixels as they were read, and by their look among outliers that were read at another
// size. Leaves out worlds that are drawn on demand; also tars, mapped files that do not fit into memory, and
// too many outliers of another size, with a warning. But a source of the outliers that names the same file,
// folder or world as the training set is noticed always. `folder` is where relative sources start.
void warn_of_leaks(const TrainingData& training, const std::optional<TestData>& test,
                   const std::string& folder);

}  // namespace poem
