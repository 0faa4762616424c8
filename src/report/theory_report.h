// What `poem theory` leaves: every measured figure as CSV and JSON, and pictures of the ratio and the error
// rates against ε.
#pragma once
#include <string>
#include <vector>

#include "core/text_table.h"
#include "study/theory.h"

namespace poem {

constexpr const char* kTheoryMark = "theory.json";  // a folder with it is a report of the theory

void write_theory(const TheorySettings& settings, const std::vector<TheoryRow>& rows,
                  const std::string& folder);  // into a folder that exists

// For the terminal: with the tightest constraint and without any, the theorem's model. A dash where the
// theorem says nothing.
TextTable to_table(const TheorySettings& settings, const std::vector<TheoryRow>& rows);

}  // namespace poem
