// What `poem toy` leaves: the data of the two-dimensional example and the paper's Figures 1 and 2b drawn from
// it.
#pragma once
#include <string>

#include "study/toy.h"

namespace poem {

constexpr const char* kToyMark = "toy.json";  // a folder with it is the report of a toy

void write_toy(const Toy& toy, const std::string& folder);  // into a folder that exists

}  // namespace poem
