// How well scores separate ID from OOD: plain functions on arrays of scores. Higher scores mean ID.
//
//   OodMetrics metrics = ood_metrics(id_scores, ood_scores);
//   std::printf("%.2f %%\n", 100 * metrics.fpr95);
#pragma once
#include <cstdint>
#include <vector>

namespace poem {

struct OodMetrics {  // shares of 1
  double fpr95 = 0;  // share of OOD with score ≥ γ, where γ is the largest threshold that keeps 95 % of ID
  double auroc = 0;            // P(ID score > OOD score); ties count one half
  double aupr_in = 0;          // average precision, ID positive
  double aupr_out = 0;         // average precision, OOD positive
  double detection_error = 0;  // the minimum over thresholds of ½(1 − TPR) + ½FPR
  double threshold = 0;        // the γ of fpr95
  int64_t id_count = 0, ood_count = 0;
};

// Exact; equal scores count as ties. Average precision is Σ (Rₖ − Rₖ₋₁) Pₖ over the distinct thresholds. An
// infinite score ranks above or below all finite ones. An empty array is an Error. So is a NaN; the message
// names its index.
OodMetrics ood_metrics(const std::vector<double>& id, const std::vector<double>& ood);

// The smallest count out of n whose share is at least tpr, 0 < tpr ≤ 1.
int64_t count_at_tpr(int64_t n, double tpr);

// The largest γ with share(scores ≥ γ) ≥ tpr, 0 < tpr ≤ 1.
double threshold_at_tpr(std::vector<double> id, double tpr);

}  // namespace poem
