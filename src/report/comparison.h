// Several runs on one page: their figures side by side, what their configs differ in, their curves.
//
//   write_report("compared.html", comparison({read_run("runs/a"), read_run("runs/b")}), false);
#pragma once
#include <string>
#include <vector>

#include "report/run_data.h"

namespace poem {

// At least two; a run that is named twice is an Error.
std::string comparison(const std::vector<RunData>& runs);

}  // namespace poem
