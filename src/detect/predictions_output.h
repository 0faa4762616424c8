// Predictions as text and for other programs. All forms have the same columns: path, verdict (the name of the
// class, "unsure" or "unknown"), predicted (the most likely class, whatever the verdict), probability, score,
// threshold, p_value and error.
//
//   fmt::print("{}", csv_head());
//   for (const Prediction& prediction : predictions) fmt::print("{}", csv_line(detector, prediction));
#pragma once
#include <string>
#include <vector>

#include "core/terminal.h"
#include "detect/predict.h"

namespace poem {

// A line with its line feed. Fields that have no value are empty.
std::string csv_head();
std::string csv_line(const Detector& detector, const Prediction& prediction);

// One JSON object with its line feed. It lacks what has no value. A path that is not UTF-8 has U+FFFD for the
// bytes that are not.
std::string json_line(const Detector& detector, const Prediction& prediction);

// For people: without `predicted`, and the error in the place of the verdict.
std::string to_table(const Detector& detector, const std::vector<Prediction>& predictions,
                     const Terminal& where);

// A .npy file of records; missing numbers are NaN.
std::string to_npy(const Detector& detector, const std::vector<Prediction>& predictions);

}  // namespace poem
