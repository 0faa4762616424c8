#include "detect/logistic.h"

#include <ATen/ATen.h>

namespace poem {

at::Tensor fit_logistic(const at::Tensor& positive, const at::Tensor& negative) {
  constexpr int kMostSteps = 100;
  constexpr double kPrecision = 1e-10, kTiny = 1e-12;
  const at::Tensor rows = at::cat({positive, negative}).to(at::kDouble);
  const at::Tensor y = at::cat({at::ones({positive.size(0)}), at::zeros({negative.size(0)})}).to(at::kDouble);
  const int64_t columns = rows.size(1);
  const at::Tensor mean = rows.mean(0), deviation = rows.std(0, /*unbiased=*/false).clamp_min(kTiny);
  const at::Tensor x = at::cat({(rows - mean) / deviation, at::ones({rows.size(0), 1}, at::kDouble)}, 1);
  at::Tensor ridge = at::ones({columns + 1}, at::kDouble);
  ridge[columns] = 0;  // the intercept is free
  at::Tensor w = at::zeros({columns + 1}, at::kDouble);
  for (int step = 0; step < kMostSteps; ++step) {  // Newton's method: convex, and curved by the ridge
    const at::Tensor p = x.mv(w).sigmoid();
    const at::Tensor gradient = x.t().mv(p - y) + ridge * w;
    const at::Tensor curvature = x.t().mm(x * (p * (1 - p)).unsqueeze(1)) + at::diag(ridge + kTiny);
    const at::Tensor change = at::linalg_solve(curvature, gradient);
    w = w - change;
    if (change.abs().max().item<double>() < kPrecision) break;
  }
  at::Tensor raw = w.clone();
  raw.narrow(0, 0, columns).div_(deviation);
  raw[columns] -= raw.narrow(0, 0, columns).dot(mean);
  return raw;
}

at::Tensor logistic_logits(const at::Tensor& coefficients, const at::Tensor& rows) {
  const int64_t columns = rows.size(1);
  return rows.to(at::kDouble).mv(coefficients.narrow(0, 0, columns)) + coefficients[columns];
}

}  // namespace poem
