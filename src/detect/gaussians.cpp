#include "detect/gaussians.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "core/interrupts.h"
#include "detect/fit_checks.h"

namespace poem {
namespace {

constexpr int64_t kBlock = 4096;  // rows in float64 at a time

// float32's relative rounding error is at most 6e-8: a variance below its square is noise.
constexpr double kNoise = 1e-14;

template <class Use>
void for_each_block(int64_t rows, const Use& use) {
  for (int64_t first = 0; first < rows; first += kBlock) {
    stop_if_interrupted();
    use(first, std::min(kBlock, rows - first));
  }
}

// Σ of (h − origin of its row)(h − origin of its row)ᵀ, where origins is o×m and `which` (n) has the index of
// a row's origin.
at::Tensor scatter_matrix(const at::Tensor& features, const at::Tensor& origins, const at::Tensor& which) {
  const int64_t m = features.size(1);
  at::Tensor sum = at::zeros({m, m}, at::kDouble);
  for_each_block(features.size(0), [&](int64_t first, int64_t rows) {
    const at::Tensor x = features.narrow(0, first, rows).to(at::kDouble) -
                         origins.index_select(0, which.narrow(0, first, rows));
    sum.addmm_(x.t(), x);
  });
  return sum;
}

}  // namespace

at::Tensor scatter_matrix(const at::Tensor& features, const at::Tensor& origin) {
  return scatter_matrix(features, origin.view({1, -1}), at::zeros({features.size(0)}, at::kLong));
}

Gaussians fit_gaussians(const at::Tensor& features, const at::Tensor& labels) {
  check_lengths(features);
  const int64_t n = features.size(0), classes = labels.max().item<int64_t>() + 1;
  at::Tensor sums = at::zeros({classes, features.size(1)}, at::kDouble);
  for_each_block(n, [&](int64_t first, int64_t rows) {
    sums.index_add_(0, labels.narrow(0, first, rows), features.narrow(0, first, rows).to(at::kDouble));
  });
  const at::Tensor counts = at::bincount(labels, {}, classes).to(at::kDouble);
  const at::Tensor means = sums / counts.clamp_min(1).unsqueeze(1);
  Gaussians fitted;
  fitted.centre = sums.sum(0) / n;
  const auto [variances, directions] = at::linalg_eigh(scatter_matrix(features, means, labels) / n);
  const double largest = variances[-1].item<double>(),
               magnitude = fitted.centre.square().max().item<double>();
  const at::Tensor kept = (variances > kNoise * (largest + magnitude)).nonzero().squeeze(1);
  if (kept.numel() == 0) throw Unfit("within each class, all training rows are the same");
  fitted.whitener = directions.index_select(1, kept) / variances.index_select(0, kept).sqrt();
  const at::Tensor occurred = counts.nonzero().squeeze(1);
  fitted.means = (means.index_select(0, occurred) - fitted.centre).mm(fitted.whitener);
  return fitted;
}

at::Tensor Gaussians::distances(const at::Tensor& features) const {
  const auto device = features.device();
  const at::Tensor mu = means.to(device);
  const at::Tensor y = (features.to(at::kDouble) - centre.to(device)).mm(whitener.to(device));
  const at::Tensor squares = y.square().sum(1, true) + mu.square().sum(1);
  return (squares - 2 * y.mm(mu.t())).clamp_min(0);
}

}  // namespace poem
