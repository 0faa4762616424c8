// What `poem toy` writes: the data of the two-dimensional example, and the paper's Figures 1 and 2b drawn
// from it.
#pragma once
#include <string>

#include "study/toy.h"

namespace poem {

constexpr const char* kToyMark = "toy.json";  // marks a folder that `poem toy` wrote

void write_toy(const Toy& toy, const std::string& folder);  // into a folder that exists

}  // namespace poem
