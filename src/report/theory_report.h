// What `poem theory` writes: every measured figure as CSV and JSON, and pictures of the ratio and the error
// rates against ε.
#pragma once
#include <string>
#include <vector>

#include "core/text_table.h"
#include "study/theory.h"

namespace poem {

constexpr const char* kTheoryMark = "theory.json";  // marks a folder that `poem theory` wrote

void write_theory(const TheorySettings& settings, const std::vector<TheoryRow>& rows,
                  const std::string& folder);  // into a folder that exists

// The theorem's model for the terminal: with the tightest constraint, and without any. A dash means that the
// theorem makes no claim.
TextTable to_table(const TheorySettings& settings, const std::vector<TheoryRow>& rows);

}  // namespace poem
