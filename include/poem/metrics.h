// How well scores tell ID from OOD. Higher scores mean ID. Plain functions on score arrays.
//
//   OodMetrics metrics = ood_metrics(id_scores, ood_scores);
//   fmt::print("{:.2f} %\n", 100 * metrics.fpr95);
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

// Exact, equal scores counted as ties; average precision is Σ (Rₖ − Rₖ₋₁) Pₖ over the distinct thresholds.
// Both sides must be non-empty and free of NaN: a poem::Error says which index is not. An infinite score is
// the highest or lowest there is, and ties with its like.
OodMetrics ood_metrics(const std::vector<double>& id, const std::vector<double>& ood);

// The smallest count of n whose share is at least tpr, for 0 < tpr ≤ 1.
int64_t count_at_tpr(int64_t n, double tpr);

// The largest γ with share(scores ≥ γ) ≥ tpr, for 0 < tpr ≤ 1.
double threshold_at_tpr(std::vector<double> id, double tpr);

}  // namespace poem
