// Score arrays from files of other programs.
//
//   std::vector<double> scores = read_scores("energy.csv");
#pragma once
#include <string>
#include <vector>

namespace poem {

// By the name's ending:
//   .npy    any number type, one score a row (float64 holds all of them exactly but integers beyond 2⁵³)
//   .npz    the same, of the only array in it
//   .csv    one score a line, the last column (',', ';' or tab); a first line without one is the header
//   other   numbers separated by white space
// A token that is no number, a number that float64 cannot hold, NaN and a file without scores are a
// poem::Error that says where. An infinity that the file itself names ("inf", "-inf") is a score: the highest
// or lowest.
std::vector<double> read_scores(const std::string& path);

}  // namespace poem
