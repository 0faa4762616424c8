// poem._core: the library for Python. The package poem (python/poem) gives its parts their names.
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <pthread.h>
#include <pybind11/pybind11.h>

#include <exception>
#include <regex>
#include <string>

#include "bindings.h"
#include "core/memory.h"
#include "core/runtime.h"
#include "poem/error.h"
#include "poem/version.h"

namespace poem::python {
namespace {

namespace py = pybind11;

// Whether this thread came along in a fork. No other thread of the process did.
thread_local bool forked = false;

// A message may name a file whose name is not UTF-8; Python's own way to keep such bytes.
py::object text(const std::string& bytes) {
  return py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<py::ssize_t>(bytes.size()), "surrogateescape"));
}

// Without the program's arguments and options and keys of configs, which Python does not have.
std::string for_python(const std::string& remedy) {
  static const std::regex option("option (\\w+)( \\([^)]* in a config\\))?"),
      other("; (in a config|if the training) .*|^the detector comes first: ");
  return std::regex_replace(std::regex_replace(remedy, other, ""), option, "$1");
}

// An Error of the library is an exception that Python code can take apart: its class is Python's own. Those
// of LibTorch carry C++ stack traces, which say nothing to a Python program.
void translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const Error& e) {
    const py::object kind = py::module_::import("poem._error").attr("Error");
    PyErr_SetObject(kind.ptr(), kind(text(e.where()), text(e.problem()), text(for_python(e.remedy()))).ptr());
  } catch (const c10::Error& e) {
    if (is_out_of_memory(e)) {
      PyErr_SetString(PyExc_MemoryError, "not enough memory (free some, or give fewer rows at a time)");
    } else {
      PyErr_SetString(PyExc_RuntimeError, e.what_without_backtrace());
    }
  }
}

}  // namespace

void compute_alone_if_forked() {
  if (!forked) return;
  // The first loop of a thread sets its number of threads; this module's loops and LibTorch's do so
  // separately.
  at::parallel_for(0, 1, 1, [](int64_t, int64_t) {});
  use_threads_here(1);
}

PYBIND11_MODULE(_core, module) {
  py::register_local_exception_translator(translate);
  pthread_atfork(nullptr, nullptr, [] { forked = true; });
  set_up_logging(/*quiet=*/true);  // warnings on stderr: standard output is the script's own
  module.attr("__version__") = version();
  add_metrics(module);
  add_mining(module);
  add_scores(module);
  add_detector(module);
}

}  // namespace poem::python
