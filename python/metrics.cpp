#include "poem/metrics.h"

#include "arrays.h"
#include "bindings.h"
#include "poem/error.h"
#include "poem/scores.h"

namespace poem::python {
namespace {

namespace py = pybind11;

OodMetrics metrics_of(const py::object& id_scores, const py::object& ood_scores) {
  const Array id = numbers_from("id_scores", id_scores), ood = numbers_from("ood_scores", ood_scores);
  try {
    return without_gil([&] { return ood_metrics(to_doubles(id.tensor), to_doubles(ood.tensor)); });
  } catch (const Error& e) {
    throw Error(e.where() == "ID scores" ? "id_scores" : "ood_scores", e.problem(), e.remedy());
  }
}

}  // namespace

void add_metrics(py::module_& module) {
  py::class_<OodMetrics>(module, "OodMetrics", "How well scores separate ID from OOD, in shares of 1.")
      .def_readonly("fpr95", &OodMetrics::fpr95, "The share of OOD with a score of at least threshold.")
      .def_readonly("auroc", &OodMetrics::auroc, "P(ID score > OOD score); ties count one half.")
      .def_readonly("aupr_in", &OodMetrics::aupr_in, "Average precision, ID positive.")
      .def_readonly("aupr_out", &OodMetrics::aupr_out, "Average precision, OOD positive.")
      .def_readonly("detection_error", &OodMetrics::detection_error,
                    "The minimum over thresholds of half of (1 - TPR) + FPR.")
      .def_readonly("threshold", &OodMetrics::threshold, "The largest threshold that keeps 95 % of ID.")
      .def_readonly("id_count", &OodMetrics::id_count, "The number of ID scores.")
      .def_readonly("ood_count", &OodMetrics::ood_count, "The number of OOD scores.");
  module.def("ood_metrics", metrics_of, py::arg("id_scores"), py::arg("ood_scores"),
             "All metrics of one score per input; higher scores mean ID.");
}

}  // namespace poem::python
