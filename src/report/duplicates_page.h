// A page with the duplicates that were found, in pairs side by side, the worst first.
//
//   write_file("pairs.html", duplicates_page(surveys, find_duplicates(marked, 100)));
#pragma once
#include <string>
#include <vector>

#include "images/duplicates.h"
#include "readers/survey.h"

namespace poem {

// `found` counts the sets in the order of `sets`. Reads the images of the pairs, for their pictures.
std::string duplicates_page(const std::vector<Survey>& sets, const Duplicates& found);

}  // namespace poem
