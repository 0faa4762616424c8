#include <ATen/ATen.h>
#include <fmt/format.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "arrays.h"
#include "bindings.h"
#include "core/memory.h"
#include "poem/error.h"
#include "poem/mine_features.h"
#include "poem/posterior.h"

namespace poem::python {
namespace {

namespace py = pybind11;

uint64_t checked_seed(int64_t seed) {
  if (seed < 0) throw Error("seed", fmt::format("is {}", seed), "use 0 or a positive number");
  return static_cast<uint64_t>(seed);
}

TargetNoise noise_of(const std::string& name) {
  if (name == "iid") return TargetNoise::kIid;
  if (name == "single") return TargetNoise::kSingle;
  throw Error("target_noise", "is '" + name + "'", "use 'iid' or 'single'");
}

// The matrices of features × features that exist at a time: ΦΦᵀ, the precision, its factor and LAPACK's copy.
constexpr int kMatrices = 4;

// What `work` returns. The library names numbers as configs do: posterior.scale is the argument scale.
template <class Work>
auto naming_arguments(const Work& work) {
  try {
    return without_gil(work);
  } catch (const Error& e) {
    const std::string prefix = "posterior.";
    if (e.where().rfind(prefix, 0) != 0) throw;
    throw Error(e.where().substr(prefix.size()), e.problem(), e.remedy());
  }
}

Posterior fit_posterior(const py::object& features, const py::object& targets, double prior_variance,
                        double noise_variance, double scale) {
  const Array x = features_from("features", features), y = numbers_from("targets", targets);
  if (x.tensor.size(0) != y.tensor.size(0)) {
    throw Error("targets",
                fmt::format("has {} numbers for {} rows of features", y.tensor.size(0), x.tensor.size(0)),
                "give one target per row");
  }
  check_square_memory("features", x.tensor.size(1), kMatrices);
  PosteriorSettings settings;
  settings.prior_variance = prior_variance;
  settings.noise_variance = noise_variance;
  settings.scale = scale;
  return naming_arguments([&] {
    Statistics statistics(x.tensor.size(1));
    statistics.add(x.tensor, y.tensor);
    return Posterior(statistics, settings);
  });
}

// One draw (m), or `count` of them (count×m). The stream is that of mine_features(): the same seed gives its
// weights.
py::array draw(const Posterior& posterior, int64_t seed, std::optional<int64_t> count) {
  Stream stream(checked_seed(seed), "weights");
  if (count) {
    if (*count < 1) throw Error("count", fmt::format("is {}", *count), "ask for at least one draw");
    const uint64_t copies = 3;  // of a draw, while it is computed
    const uint64_t each = copies * sizeof(double) * static_cast<uint64_t>(posterior.mean().size(0));
    const uint64_t most = std::numeric_limits<uint64_t>::max() / each;
    check_memory("count", std::min(static_cast<uint64_t>(*count), most) * each,
                 "ask for fewer draws at a time");
  }
  return to_numpy(
      without_gil([&] { return count ? posterior.draws(stream, *count).t() : posterior.draw(stream); }));
}

void check_width(const char* where, const Array& array, const Array& id) {
  if (array.tensor.size(1) != id.tensor.size(1))
    throw Error(where, fmt::format("has {} features, but id has {}", array.tensor.size(1), id.tensor.size(1)),
                "use features of the same network for all three");
}

MinedFeatures mine(const py::object& id, const py::object& outliers, const py::object& pool, int64_t n,
                   int64_t seed, double prior_variance, double noise_variance, double scale, double target,
                   const std::string& target_noise) {
  const Array known = features_from("id", id), unknown = features_from("outliers", outliers),
              candidates = features_from("pool", pool);
  check_width("outliers", unknown, known);
  check_width("pool", candidates, known);
  if (const int64_t rows = candidates.tensor.size(0); n < 1 || n > rows)
    throw Error("n", fmt::format("is {}, but the pool has {} rows", n, rows),
                fmt::format("choose 1 to {}", rows));
  const PosteriorSettings settings{prior_variance, noise_variance, scale, target, noise_of(target_noise)};
  const uint64_t checked = checked_seed(seed);
  check_square_memory("id", known.tensor.size(1), kMatrices);
  return naming_arguments(
      [&] { return mine_features(known.tensor, unknown.tensor, candidates.tensor, n, checked, settings); });
}

void add_posterior(py::module_& module) {
  const PosteriorSettings usual;
  py::class_<Posterior>(module, "Posterior", R"(Bayesian linear regression on features, in float64.

w ~ N(A⁻¹ Φy / noise_variance, scale · A⁻¹),  A = ΦΦᵀ / noise_variance + I / prior_variance

features: n×m floats; targets: n numbers. A value that is not finite is an Error, and so are features of which one
is a combination of the others as far as float64 can tell.)")
      .def(py::init(&fit_posterior), py::arg("features"), py::arg("targets"), py::kw_only(),
           py::arg("prior_variance") = usual.prior_variance, py::arg("noise_variance") = usual.noise_variance,
           py::arg("scale") = usual.scale)
      .def_property_readonly(
          "mean",
          [](const Posterior& self) { return to_numpy(without_gil([&] { return self.mean().clone(); })); },
          "The mean of the weights: m float64.")
      .def_property_readonly(
          "covariance",
          [](const Posterior& self) { return to_numpy(without_gil([&] { return self.covariance(); })); },
          "The covariance of the weights, scale included: m×m float64.")
      .def("draw", &draw, py::arg("seed"), py::arg("count") = py::none(), R"(Draw weights.

Returns m float64, or count×m if count is given. The same seed gives the same weights; the first of many draws is
the one that draw(seed) gives.)");
}

}  // namespace

void add_mining(py::module_& module) {
  add_posterior(module);
  py::class_<MinedFeatures>(module, "Mined", "What mine() found.")
      .def_readonly("posterior", &MinedFeatures::posterior, "The posterior of the ID and outlier rows.")
      .def_property_readonly(
          "weights", [](const MinedFeatures& self) { return to_numpy(self.weights); },
          "The draw w from the posterior: m float64.")
      .def_property_readonly(
          "logits", [](const MinedFeatures& self) { return to_numpy(self.logits); },
          "wᵀφ of every row of the pool, float32; its sigmoid is the probability of an outlier.")
      .def_property_readonly(
          "chosen", [](const MinedFeatures& self) { return to_numpy(at::tensor(self.chosen, at::kLong)); },
          "The chosen rows of the pool, int64: nearest the boundary first, ties by the smaller row.");
  const PosteriorSettings usual;
  module.def("mine", &mine, py::arg("id"), py::arg("outliers"), py::arg("pool"), py::arg("n"),
             py::arg("seed") = 0, py::kw_only(), py::arg("prior_variance") = usual.prior_variance,
             py::arg("noise_variance") = usual.noise_variance, py::arg("scale") = usual.scale,
             py::arg("target") = usual.target, py::arg("target_noise") = "iid",
             R"(Choose the n rows of the pool that lie nearest the boundary between ID and outliers (POEM).

Fits the posterior on the ID rows (target logit -target) and the outliers (+target), draws weights w from it and
ranks the pool by -|wᵀφ|. All three are rows × features, floats of any network's penultimate layer with the same
number of features.

seed: give another one in every epoch, so that every epoch draws other weights.
target_noise: 'iid' draws noise for every target, 'single' once for all of them, as the authors' code does.)");
}

}  // namespace poem::python
