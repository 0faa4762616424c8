#include "core/finite.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "poem/error.h"

namespace poem {

void fail_not_finite(const std::string& where, int64_t row, int64_t feature, double value,
                     const std::string& remedy) {
  throw Error(where, fmt::format("feature {} of row {} is {}", feature, row, value), remedy);
}

void check_finite(const std::string& where, const at::Tensor& features, const std::string& remedy) {
  constexpr int64_t kBlock = 4096;  // rows at a time: the comparison is as large as what is compared
  for (int64_t first = 0; first < features.size(0); first += kBlock) {
    const at::Tensor block = features.narrow(0, first, std::min(kBlock, features.size(0) - first));
    const at::Tensor bad = at::isfinite(block).logical_not_();
    if (!bad.any().item<bool>()) continue;
    const at::Tensor place = bad.nonzero()[0].cpu();
    const auto row = place[0].item<int64_t>(), feature = place[1].item<int64_t>();
    fail_not_finite(where, first + row, feature, block[row][feature].item<double>(), remedy);
  }
}

}  // namespace poem
