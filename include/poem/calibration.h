// How a detector's threshold was chosen, and which share of new ID images it will keep.
//
//   const KeptShare kept = kept_share({0.95, 24});   // 0.789 … 0.990
#pragma once
#include <cstdint>
#include <string>

namespace poem {

struct Calibration {
  double tpr;      // the threshold keeps at least this share of the held-out ID images; above 0, at most 1
  int64_t images;  // the number of held-out images
};
bool is_possible(const Calibration& calibration);  // false for what only a damaged file says

// The share of new ID images that the threshold keeps, as a 95 % interval over all choices of the held-out
// images. The threshold is the k-th largest of n scores, where k is the smallest count with k/n ≥ tpr. For
// any continuous distribution of the scores, the share that it keeps is then distributed as Beta(k, n − k +
// 1). Ties keep more.
struct KeptShare {
  double low, high;
};
KeptShare kept_share(const Calibration& calibration);

// "keeps 23 of 24 held-out ID images (asked: 95 %) and, with 95 % confidence, 78.9 to 99.0 % of new ones"
std::string to_text(const Calibration& calibration);

}  // namespace poem
