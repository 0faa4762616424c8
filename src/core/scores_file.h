// Score arrays from files of other programs, and from poem's own scores.csv.
//
//   std::vector<double> scores = read_scores("energy.csv");
//   std::vector<double> far = read_scores("runs/mine/scores.csv", "far");
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace poem {

// How the header of poem's own scores.csv begins (detect/scores_csv.h). Behind it comes one column per score.
constexpr std::string_view kScoresColumns = "set,name,class,predicted,verdict";

// By the name's ending:
//   .npy    any number type, one score per row (float64 holds all of them exactly but integers beyond 2⁵³)
//   .npz    the same, of the only array in it
//   .csv    one score per record, the last column (',', ';' or tab); a first line without one is the header.
//           Of poem's own scores.csv only the rows of `set` are read; it must have a single score.
//   other   numbers separated by white space
// A token that is not a number, a number that float64 cannot hold, NaN and a file without scores are a
// poem::Error that says where. An infinity that the file itself names ("inf", "-inf") is a score: the highest
// or lowest.
std::vector<double> read_scores(const std::string& path, const std::string& set = "id");

}  // namespace poem
