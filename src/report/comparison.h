// Several runs on one page: their figures side by side, the differences of their configs, their curves.
//
//   write_report("compared.html", comparison({read_run("runs/a"), read_run("runs/b")}), false);
#pragma once
#include <string>
#include <vector>

#include "report/run_data.h"

namespace poem {

// Takes at least two runs. A run that is named twice is an Error.
std::string comparison(const std::vector<RunData>& runs);

}  // namespace poem
