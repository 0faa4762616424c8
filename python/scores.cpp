#include "poem/scores.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "detect/posthoc.h"
#include "poem/error.h"

namespace poem::python {
namespace {

namespace py = pybind11;

// A fitted score and what it is given beside its rows.
struct Fitted {
  std::unique_ptr<Score> score;
  Head head;          // undefined if none was given
  at::Tensor spread;  // of the training features; undefined if none were given
  int64_t width = 0;  // of the features; 0 if it is not known
  std::mutex in_use;  // a score serves one thread at a time
};

void check_width(const char* where, int64_t columns, int64_t expected) {
  if (expected > 0 && columns != expected)
    throw Error(where, fmt::format("has {} columns, expected {}", columns, expected),
                "use features, labels, weight and bias of one network");
}

// An Error names the argument, not the two together.
Head head_of(const at::Tensor& weight, const at::Tensor& bias) {
  try {
    return make_head("head", weight, bias);
  } catch (const Error& e) {
    const std::string& problem = e.problem();  // "weight has …" or "bias has …"
    const size_t space = problem.find(' ');
    throw Error(problem.substr(0, space), problem.substr(space + 1), e.remedy());
  }
}

// An Error that names the first of the rows for which `bad` holds; `first` is the number of row 0.
void check_rows(const std::string& where, const at::Tensor& bad, const char* problem, const char* remedy,
                int64_t first = 0) {
  const at::Tensor rows = bad.nonzero();
  if (rows.size(0) > 0)
    throw Error(where, fmt::format("row {} has {}", first + rows[0].item<int64_t>(), problem), remedy);
}

at::Tensor not_finite(const at::Tensor& logits) { return at::isfinite(logits).all(1).logical_not(); }

at::Tensor logits_in_float32(const at::Tensor& logits) {
  const at::Tensor values = logits.to(at::kFloat);
  check_rows("logits", not_finite(values), "a value that is not finite in float32",
             "remove the row or correct its source");
  return values;
}

// Any two of the class numbers stay different, and there are no gaps that would take memory.
at::Tensor without_gaps(const at::Tensor& labels) {
  return std::get<1>(at::_unique2(labels, /*sorted=*/true, /*return_inverse=*/true));
}

// The matrices of features × features that exist at a time in a fit: what LAPACK needs for the eigenvectors
// of one, and the result of another.
int square_matrices(const std::string& name) {
  if (name == "rmds") return 6;  // two fits, one after the other
  return name == "mds" || name == "ssd" || name == "vim" ? 5 : 0;
}

// The scores of all rows. `features` or `logits` may be undefined if the score does not need them.
at::Tensor score_rows(const Score& score, const Head& head, const at::Tensor& features,
                      const at::Tensor& logits) {
  constexpr int64_t kBlock = 2048;
  constexpr const char* kRescale = "rescale features, weight and bias: scores are computed in float32";
  const int64_t rows = (features.defined() ? features : logits).size(0);
  std::vector<at::Tensor> blocks;
  for (int64_t first = 0; first < rows; first += kBlock) {
    const int64_t count = std::min(kBlock, rows - first);
    Batch batch;
    if (features.defined()) batch.features = features.narrow(0, first, count);
    if (logits.defined()) {
      batch.logits = logits.narrow(0, first, count);
    } else if (needs(score.name(), kClasses)) {
      batch.logits = head(batch.features);
      check_rows("features", not_finite(batch.logits), "logits that are not finite in float32", kRescale,
                 first);
    }
    blocks.push_back(score(batch));
    check_rows(features.defined() ? "features" : "logits", blocks.back().isnan(),
               "a score that is not a number", kRescale, first);
  }
  return at::cat(blocks);
}

class PosthocScore {
 public:
  explicit PosthocScore(std::string name) : name_(std::move(name)) {
    choose_scores({name_}, kPosthocNeeds);  // throws if it is not known, or needs more than features
    if (needs(name_, kFitted)) return;
    fitted_ = std::make_shared<Fitted>();
    fitted_->score = make_score(name_);
  }

  const std::string& name() const { return name_; }

  // An argument that the score does not need may be None. Sets nothing if it throws.
  void fit(const py::object& features, const py::object& labels, const py::object& weight,
           const py::object& bias);
  py::array score(const py::object& features, const py::object& logits) const;

 private:
  std::string where() const { return "score '" + name_ + "'"; }
  void require(const char* name, const py::object& argument, const std::string& remedy) const {
    if (argument.is_none()) throw Error(where(), fmt::format("needs {}", name), remedy);
  }

  std::string name_;
  std::shared_ptr<Fitted> fitted_;  // fit() replaces it, so a score() in another thread keeps its own
};

void PosthocScore::fit(const py::object& features, const py::object& labels, const py::object& weight,
                       const py::object& bias) {
  const bool trained = needs(name_, kTraining), with_head = !weight.is_none() || !bias.is_none();
  if (trained) require("features", features, "give those of ID training inputs");
  if (trained) require("labels", labels, "give the classes of the training features, from 0");
  if (needs(name_, kHead) || with_head) {
    require("weight", weight, "give that of the last layer: classes × features");
    require("bias", bias, "give that of the last layer: one number per class");
  }
  Array x, y, w, b;
  if (trained) {
    x = features_from("features", features);
    y = labels_from("labels", labels);
  }
  if (with_head) {
    w = floats_from("weight", weight);
    b = floats_from("bias", bias);
  }
  if (trained) check_square_memory("features", x.tensor.size(1), square_matrices(name_));
  fitted_ = without_gil([&] {
    auto fitted = std::make_shared<Fitted>();
    Training training;
    int64_t classes = std::numeric_limits<int64_t>::max();
    if (with_head) {
      training.head = fitted->head = head_of(w.tensor, b.tensor);
      classes = training.head.weight.size(0);
      fitted->width = training.head.weight.size(1);
    }
    if (trained) {
      check_width("features", x.tensor.size(1), fitted->width);
      fitted->width = x.tensor.size(1);
      fitted->spread = spread_of(x.tensor);
      training.features = make_features("features", x.tensor, fitted->spread);
      training.labels = without_gaps(make_labels("labels", y.tensor, x.tensor.size(0), classes));
    }
    fitted->score = make_fitted_score(name_, training, /*only=*/true);
    return fitted;
  });
}

py::array PosthocScore::score(const py::object& features, const py::object& logits) const {
  if (!fitted_) throw Error(where(), "is not fitted", "call fit() first");
  const std::shared_ptr<Fitted> fitted = fitted_;
  const bool with_head = fitted->head.weight.defined();
  if (needs(name_, kTraining | kHead)) require("features", features, "give those of the inputs");
  if (needs(name_, kClasses) && !(with_head && !features.is_none()))
    require("logits", logits, "give them, or call fit() with weight and bias and give features");
  Array x, z;
  if (!features.is_none()) x = features_from("features", features);
  if (!logits.is_none()) z = features_from("logits", logits);
  if (!features.is_none() && !logits.is_none() && x.tensor.size(0) != z.tensor.size(0)) {
    throw Error("logits", fmt::format("has {} rows, but features has {}", z.tensor.size(0), x.tensor.size(0)),
                "give both of the same inputs");
  }
  return to_numpy(without_gil([&] {
    const std::lock_guard lock(fitted->in_use);
    if (x.tensor.defined()) {
      check_width("features", x.tensor.size(1), fitted->width);
      x.tensor = make_features("features", x.tensor, fitted->spread);
    }
    if (z.tensor.defined()) {
      if (with_head) check_width("logits", z.tensor.size(1), fitted->head.weight.size(0));
      z.tensor = logits_in_float32(z.tensor);
    }
    return score_rows(*fitted->score, fitted->head, x.tensor, z.tensor);
  }));
}

}  // namespace

void add_scores(py::module_& module) {
  py::class_<PosthocScore>(module, "Score",
                           R"(A score that ranks inputs by features and logits; higher means ID.

name: one of score_names(). docs/scores.md has the formulas. msp, maxlogit, energy and gen need no fit.)")
      .def(py::init<std::string>(), py::arg("name"))
      .def_property_readonly("name", &PosthocScore::name, "One of score_names().")
      .def(
          "fit",
          [](py::object self, const py::object& features, const py::object& labels, const py::object& weight,
             const py::object& bias) {
            self.cast<PosthocScore&>().fit(features, labels, weight, bias);
            return self;
          },
          py::arg("features") = py::none(), py::arg("labels") = py::none(), py::arg("weight") = py::none(),
          py::arg("bias") = py::none(), R"(Fit on ID training data alone and return self.

features: n×m floats; labels: n classes from 0; weight (K×m) and bias (K): the network's last layer. What the score
does not need may be left out. Weight and bias also let score() compute logits from features.)")
      .def("score", &PosthocScore::score, py::arg("features") = py::none(), py::arg("logits") = py::none(),
           R"(Score inputs: n float32, higher means ID.

features: n×m floats; logits: n×K floats. Logits are computed from the features if they are left out and fit() got
weight and bias.)")
      .def("__repr__", [](const PosthocScore& self) { return fmt::format("poem.Score('{}')", self.name()); });
  module.def(
      "score_names", [] { return choose_scores({"all"}, kPosthocNeeds); },
      "The names of all scores that need only features and logits.");
}

}  // namespace poem::python
