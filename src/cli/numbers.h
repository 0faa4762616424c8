// Ranges of numeric options, checked in poem's words instead of CLI11's: "--seed: is '-1', not a whole number
// of at least 0".
//
//   command->add_option("--seed", seed, "…")->check(whole(0));
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

namespace poem {

CLI::Validator whole(int64_t low, int64_t high = std::numeric_limits<int64_t>::max());
CLI::Validator number(double low, double high = std::numeric_limits<double>::infinity());

}  // namespace poem
