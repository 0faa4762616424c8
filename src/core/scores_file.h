// Score arrays from files of other programs.
//
//   std::vector<float> scores = read_scores("energy.csv");
#pragma once
#include <string>
#include <vector>

namespace poem {

// By the name's ending, as float32:
//   .npy    any number type, one score a row
//   .npz    the same, of the only array in it
//   .csv    one score a line, the last column (',', ';' or tab); a first line without one is the header
//   other   numbers separated by white space
// A token that is no number, NaN and a file without scores are a poem::Error that says where. Infinities
// pass.
std::vector<float> read_scores(const std::string& path);

}  // namespace poem
