// How well scores tell ID from OOD. Higher scores mean ID. Plain functions on score arrays.
#pragma once
#include <cstdint>
#include <vector>

namespace poem {

struct OodMetrics {
  double fpr95 = 0;  // share of OOD with score ≥ γ, γ the largest threshold with share(ID ≥ γ) ≥ 0.95
  double auroc = 0;            // P(ID score > OOD score), ties count one half
  double aupr_in = 0;          // average precision, ID positive
  double aupr_out = 0;         // average precision, OOD positive (by descending −score)
  double detection_error = 0;  // min over thresholds of ½(1 − TPR) + ½FPR
  double threshold = 0;        // the γ of fpr95
  int64_t id_count = 0, ood_count = 0;
};

// Both sides must be non-empty and free of NaN: a poem::Error says which index is not.
OodMetrics ood_metrics(std::vector<float> id, std::vector<float> ood);

// The largest γ with share(scores ≥ γ) ≥ tpr.
float threshold_at_tpr(std::vector<float> id, double tpr);

}  // namespace poem
