#include "detect/percentile.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

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
  const at::Tensor table = rows.contiguous();
  const int64_t width = table.size(1);
  at::Tensor result = at::empty({table.size(0)});
  at::parallel_for(0, table.size(0), 64, [&](int64_t first, int64_t end) {
    std::vector<float> row;
    for (int64_t i = first; i < end; ++i) {
      const float* values = table.data_ptr<float>() + i * width;
      row.assign(values, values + width);
      result.data_ptr<float>()[i] = static_cast<float>(percentile_of(row, p));
    }
  });
  return result;
}

}  // namespace poem
