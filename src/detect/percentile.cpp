#include "detect/percentile.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

namespace poem {
namespace {

double percentile_of(std::vector<float>& values, double p) {
  const double place = p / 100 * static_cast<double>(values.size() - 1);
  const auto below = values.begin() + static_cast<std::ptrdiff_t>(place);
  std::nth_element(values.begin(), below, values.end());
  const double low = *below, share = place - static_cast<double>(below - values.begin());
  if (share == 0) return low;
  return low + share * (*std::min_element(below + 1, values.end()) - low);
}

}  // namespace

double percentile(const at::Tensor& values, double p) {
  const at::Tensor flat = values.contiguous();
  std::vector<float> copy(flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
  return percentile_of(copy, p);
}

at::Tensor row_percentiles(const at::Tensor& rows, double p) {
  const int64_t width = rows.size(1);
  const double place = p / 100 * static_cast<double>(width - 1);
  const auto below = static_cast<int64_t>(place);
  // The entries from the place upwards, the largest first.
  const at::Tensor top = std::get<0>(rows.topk(width - below, 1)).to(at::kDouble);
  at::Tensor result = top.narrow(1, width - below - 1, 1);
  if (const double share = place - static_cast<double>(below); share > 0)
    result = result + share * (top.narrow(1, width - below - 2, 1) - result);
  return result.squeeze(1).to(at::kFloat);
}

}  // namespace poem
