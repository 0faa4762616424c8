#include "poem/posterior.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <limits>
#include <tuple>
#include <vector>

#include "core/finite.h"
#include "poem/error.h"
#ifdef POEM_HAS_CBLAS
#include <cblas.h>
#endif

namespace poem {
namespace {

constexpr int64_t kBlockRows = 5000;  // float64 rows per block: they fit a cache, and BLAS is efficient
constexpr int64_t kRowsPerThread = 500;

const char* const kNotFinite =
    "remove the row or correct its source; if the training diverged, lower train.learning_rate";

void check_targets(const at::Tensor& targets) {
  const double* y = targets.data_ptr<double>();
  for (int64_t row = 0; row < targets.size(0); ++row) {
    if (!std::isfinite(y[row])) {
      throw Error("posterior", fmt::format("the target of row {} is {}", row, y[row]), "use finite targets");
    }
  }
}

template <typename T>
bool all_finite(const T* values, int64_t count) {
  int bad = 0;  // an integer, so that the loop becomes vector instructions
  for (int64_t i = 0; i < count; ++i) bad |= !(std::abs(values[i]) <= std::numeric_limits<T>::max());
  return bad == 0;
}

// Rows and targets from one row on.
template <typename T>
struct Rows {
  const T* features;
  const double* targets;
  int64_t first, count, width;
};

// Copies the rows as float64 and returns their Φy, computed while they are in the cache.
template <typename T>
std::vector<double> copy_rows(const Rows<T>& rows, double* to) {
  const int64_t m = rows.width;
  std::vector<double> moment(m);
  for (int64_t row = rows.first; row < rows.first + rows.count; ++row, to += m) {
    const T* from = rows.features + row * m;
    if (!all_finite(from, m)) {
      const T* bad = std::find_if(from, from + m, [](T x) { return !std::isfinite(x); });
      fail_not_finite("posterior", row, bad - from, *bad, kNotFinite);
    }
    for (int64_t j = 0; j < m; ++j) {
      to[j] = from[j];
      moment[j] += rows.targets[row] * to[j];
    }
  }
  return moment;
}

// The same with threads. OpenMP's threads would stay awake for milliseconds after their work and take the
// cores from BLAS, which comes next: the whole would take twice as long. So these are plain threads.
template <typename T>
void copy_block(const Rows<T>& rows, double* to, double* moment) {
  const int64_t parts = std::clamp<int64_t>(rows.count / kRowsPerThread, 1, at::get_num_threads());
  std::vector<std::future<std::vector<double>>> sums;
  for (int64_t part = parts - 1; part >= 0; --part) {  // this thread does the first part
    const int64_t begin = rows.count * part / parts, end = rows.count * (part + 1) / parts;
    const Rows<T> mine{rows.features, rows.targets, rows.first + begin, end - begin, rows.width};
    sums.push_back(std::async(part > 0 ? std::launch::async : std::launch::deferred, copy_rows<T>, mine,
                              to + begin * rows.width));
  }
  for (auto sum = sums.rbegin(); sum != sums.rend(); ++sum) {
    const std::vector<double> part = sum->get();
    for (int64_t j = 0; j < rows.width; ++j) moment[j] += part[j];
  }
}

// gram += weight · blockᵀ block in the lower triangle. Working in panels takes little more than half of the
// operations of the whole product.
void add_gram_by_panels(const at::Tensor& block, double weight, const at::Tensor& gram) {
  constexpr int64_t kPanel = 64;
  const int64_t m = gram.size(0);
  for (int64_t begin = 0; begin < m; begin += kPanel) {
    const int64_t end = std::min(m, begin + kPanel);
    gram.slice(0, begin, end)
        .slice(1, 0, end)
        .addmm_(block.slice(1, begin, end).t(), block.slice(1, 0, end), 1, weight);
  }
  gram.tril_();
}

void add_gram(const at::Tensor& block, double weight, const at::Tensor& gram) {
#ifdef POEM_HAS_CBLAS
  const auto rows = static_cast<int>(block.size(0)), m = static_cast<int>(block.size(1));
  cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, m, rows, weight, block.data_ptr<double>(), m, 1.0,
              gram.data_ptr<double>(), m);
#else
  add_gram_by_panels(block, weight, gram);
#endif
}

template <typename T>
void add_on_cpu(const at::Tensor& features, const at::Tensor& targets, double weight, Statistics& to) {
  const int64_t n = features.size(0), m = features.size(1);
  const at::Tensor buffer = at::empty({std::min(n, kBlockRows), m}, at::kDouble);
  for (int64_t first = 0; first < n; first += kBlockRows) {
    const int64_t count = std::min(kBlockRows, n - first);
    copy_block<T>({features.data_ptr<T>(), targets.data_ptr<double>(), first, count, m},
                  buffer.data_ptr<double>(), to.moment.data_ptr<double>());
    add_gram(buffer.narrow(0, 0, count), weight, to.gram);
  }
}

void add_on_device(const at::Tensor& features, const at::Tensor& targets, double weight, Statistics& to) {
  check_finite("posterior", features, kNotFinite);
  const auto options = features.options().dtype(at::kDouble);
  const at::Tensor gram = at::zeros_like(to.gram, options), moment = at::zeros_like(to.moment, options);
  const at::Tensor device_targets = targets.to(features.device());
  for (int64_t first = 0; first < features.size(0); first += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, features.size(0) - first);
    const at::Tensor block = features.narrow(0, first, rows).to(at::kDouble);
    add_gram_by_panels(block, weight, gram);
    moment.addmv_(block.t(), device_targets.narrow(0, first, rows));
  }
  to.gram.add_(gram.cpu());
  to.moment.add_(moment.cpu());
}

void check_positive(const char* key, double value) {
  if (!(value > 0 && std::isfinite(value))) {
    throw Error(fmt::format("posterior.{}", key), fmt::format("{} is not above 0", value),
                "use a positive number");
  }
}

// If a pivot is not positive, or no larger than the rounding errors in it, then the feature is a combination
// of earlier features, as far as float64 can tell.
void check_factor(const at::Tensor& precision, const at::Tensor& factor, int64_t failed_minor) {
  constexpr double kRounding = 16 * std::numeric_limits<double>::epsilon();
  const at::Tensor diagonal = precision.diagonal().contiguous(), pivots = factor.diagonal().contiguous();
  const double* a = diagonal.data_ptr<double>();
  const double* l = pivots.data_ptr<double>();
  int64_t feature = 0;
  const int64_t sound = failed_minor > 0 ? failed_minor - 1 : precision.size(0);
  while (feature < sound && l[feature] * l[feature] > kRounding * a[feature] && std::isfinite(l[feature])) {
    ++feature;
  }
  if (feature == precision.size(0)) return;
  throw Error(
      "posterior",
      fmt::format("feature {} is degenerate (diagonal entry {:.3g}): the matrix has no Cholesky factor",
                  feature, a[feature]),
      "remove or rescale the feature, or lower option prior_variance (posterior.prior_variance in a config); "
      "if "
      "the training diverged, lower train.learning_rate");
}

}  // namespace

Statistics::Statistics(int64_t features)
    : gram(at::zeros({features, features}, at::kDouble)), moment(at::zeros({features}, at::kDouble)) {}

Statistics::Statistics(const Statistics& other)
    : gram(other.gram.clone()), moment(other.moment.clone()), count(other.count) {}

Statistics& Statistics::operator=(const Statistics& other) { return *this = Statistics(other); }

void Statistics::add(const at::Tensor& features, const at::Tensor& targets, double weight) {
  if (features.dim() != 2 || features.size(1) != moment.size(0)) {
    throw Error("posterior", fmt::format("got features of width {}, expected {}",
                                         features.dim() == 2 ? features.size(1) : -1, moment.size(0)));
  }
  TORCH_CHECK(targets.dim() == 1 && targets.size(0) == features.size(0), "one target per row");
  const at::Tensor y = targets.to(at::kCPU, at::kDouble).contiguous();
  check_targets(y);
  const at::Tensor x = features.scalar_type() == at::kDouble ? features : features.to(at::kFloat);
  if (!x.is_cpu()) {
    add_on_device(x, y, weight, *this);
  } else if (x.scalar_type() == at::kDouble) {
    add_on_cpu<double>(x.contiguous(), y, weight, *this);
  } else {
    add_on_cpu<float>(x.contiguous(), y, weight, *this);
  }
  count += weight * static_cast<double>(features.size(0));
}

Statistics& Statistics::operator+=(const Statistics& other) {
  gram.add_(other.gram);
  moment.add_(other.moment);
  count += other.count;
  return *this;
}

Statistics& Statistics::operator-=(const Statistics& other) {
  gram.sub_(other.gram);
  moment.sub_(other.moment);
  count -= other.count;
  return *this;
}

Posterior::Posterior(const Statistics& statistics, const PosteriorSettings& settings)
    : scale_(settings.scale) {
  check_positive("prior_variance", settings.prior_variance);
  check_positive("noise_variance", settings.noise_variance);
  check_positive("scale", settings.scale);
  const double noise_precision = 1 / settings.noise_variance;
  at::Tensor precision = statistics.gram * noise_precision;  // only its lower triangle is used
  precision.diagonal().add_(1 / settings.prior_variance);
  at::Tensor info;
  std::tie(factor_, info) = at::linalg_cholesky_ex(precision);
  check_factor(precision, factor_, info.item<int64_t>());
  mean_ = at::cholesky_solve((statistics.moment * noise_precision).unsqueeze(1), factor_).squeeze(1);
}

at::Tensor Posterior::covariance() const { return scale_ * at::cholesky_inverse(factor_); }

at::Tensor Posterior::draw(Stream& stream) const {
  at::Tensor z = at::empty_like(mean_);
  double* values = z.data_ptr<double>();
  std::generate(values, values + z.size(0), [&] { return stream.normal(); });
  // Cov(L⁻ᵀz) = L⁻ᵀL⁻¹ = A⁻¹.
  const at::Tensor x = at::linalg_solve_triangular(factor_.t(), z.unsqueeze(1), /*upper=*/true).squeeze(1);
  return mean_ + std::sqrt(scale_) * x;
}

at::Tensor Posterior::draws(Stream& stream, int64_t how_many) const {
  at::Tensor all = at::empty({mean_.size(0), how_many}, at::kDouble);
  for (int64_t i = 0; i < how_many; ++i) all.select(1, i).copy_(draw(stream));
  return all;
}

}  // namespace poem
