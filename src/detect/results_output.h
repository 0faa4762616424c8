// Results as JSON objects, and as tables that fit a terminal.
//
//   json["results"] = to_json(results);
//   fmt::print("{}", to_table(results, terminal(STDOUT_FILENO)));
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/terminal.h"
#include "poem/results.h"

namespace poem {

// What to_json_text() prints, without what follows "problem" there.
nlohmann::ordered_json to_json(const Results& results);

// All of it. Names that are not UTF-8 are as they are: dump() must replace them.
nlohmann::ordered_json to_full_json(const Results& results);

std::string to_table(const Results& results, const Terminal& where);
std::string to_table(const ScoreResults& results, const Terminal& where);

}  // namespace poem
