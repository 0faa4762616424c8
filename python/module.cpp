// poem._core: the library for Python. The package poem (python/poem) gives its parts their names.
#include <pybind11/pybind11.h>

#include <exception>
#include <regex>
#include <string>

#include "bindings.h"
#include "poem/error.h"
#include "poem/runtime.h"
#include "poem/version.h"

namespace poem::python {
namespace {

namespace py = pybind11;

// A message may name a file whose name is not UTF-8; Python's own way to keep such bytes.
py::object text(const std::string& bytes) {
  return py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<py::ssize_t>(bytes.size()), "surrogateescape"));
}

// Without options of the program and keys of configs, which Python does not have.
std::string for_python(const std::string& remedy) {
  static const std::regex option("option (\\w+)( \\([^)]* in a config\\))?"),
      config("; (in a config|if the training) .*");
  return std::regex_replace(std::regex_replace(remedy, config, ""), option, "$1");
}

// An Error of the library is an exception that Python code can take apart: its class is Python's own.
void translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const Error& e) {
    const py::object kind = py::module_::import("poem._error").attr("Error");
    PyErr_SetObject(kind.ptr(), kind(text(e.where()), text(e.problem()), text(for_python(e.remedy()))).ptr());
  }
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  py::register_local_exception_translator(translate);
  set_up_logging(/*quiet=*/true);  // warnings on stderr: standard output is the script's own
  module.attr("__version__") = version();
  add_metrics(module);
  add_mining(module);
  add_scores(module);
  add_detector(module);
}

}  // namespace poem::python
