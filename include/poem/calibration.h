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
bool is_possible(const Calibration& calibration);  // false if a value is out of range: the file is damaged

// With 95 % confidence, the threshold keeps a share of new ID images between `low` and `high`. The reason:
// the threshold is the k-th largest of the n scores of the held-out images, where k is the smallest count
// with k/n ≥ tpr. If the scores have a continuous distribution, the share that such a threshold keeps is
// distributed as Beta(k, n − k + 1), and `low` and `high` are its 2.5 % and 97.5 % quantiles. If scores are
// equal, the threshold keeps more.
struct KeptShare {
  double low, high;
};
KeptShare kept_share(const Calibration& calibration);

// "keeps 23 of 24 held-out ID images (asked: 95 %) and, with 95 % confidence, 78.9 to 99.0 % of new ones"
std::string to_text(const Calibration& calibration);

}  // namespace poem
