// What a detector's threshold rests on, and which share of new ID images it will keep.
//
//   const KeptShare kept = kept_share({0.95, 24});   // 0.789 … 0.990
#pragma once
#include <cstdint>
#include <string>

namespace poem {

struct Calibration {
  double tpr;      // share of the held-out ID images that the threshold keeps at least, above 0 and at most 1
  int64_t images;  // how many were held out
};
bool is_possible(const Calibration& calibration);  // false for what only a damaged file says

// The share of new images of the same kind that the threshold keeps lies between these in 95 % of all
// drawings of the held-out images. The threshold is the k-th largest of n scores, k the smallest count with
// k/n ≥ tpr: whatever the scores' distribution, the share that it keeps is distributed as Beta(k, n − k + 1),
// or more where scores are equal.
struct KeptShare {
  double low, high;
};
KeptShare kept_share(const Calibration& calibration);

// "keeps 23 of 24 held-out ID images (asked: 95 %) and, with 95 % confidence, 78.9 to 99.0 % of new ones"
std::string to_text(const Calibration& calibration);

}  // namespace poem
