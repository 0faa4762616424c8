#include "detect/fit_checks.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <vector>

namespace poem {
namespace {

constexpr int64_t kBlock = 4096;  // rows that are checked at a time

}  // namespace

void check_varies(const at::Tensor& features) {
  constexpr double kRounding = 1e-6;  // some of float32's steps, as a share
  const at::Tensor first = features[0], tolerance = kRounding * first.abs();
  for (const at::Tensor& rows : features.split(kBlock)) {
    if (((rows - first).abs() > tolerance).any().item<bool>()) return;
  }
  throw Unfit(features.size(0) == 1 ? "there is only one training row" : "all training rows are the same");
}

void check_lengths(const at::Tensor& features) {
  constexpr double kFar = 1e7;  // float32 has 24 bits: beside 1e7, 1 is rounding
  std::vector<at::Tensor> blocks;
  for (const at::Tensor& rows : features.split(kBlock)) blocks.push_back(rows.to(at::kDouble).norm(2, 1));
  const at::Tensor lengths = at::cat(blocks);
  const auto [longest, row] = lengths.max(0);
  const double most = longest.item<double>(), usual = lengths.median().item<double>();
  if (usual == 0 || most <= kFar * usual) return;
  throw Unfit(
      fmt::format("training row {} has length {:.2g}, but the median row {:.2g}: it outweighs all others",
                  row.item<int64_t>(), most, usual));
}

}  // namespace poem
