// The parts of the module poem._core: one function per file, each called once by module.cpp.
#pragma once
#include <pybind11/pybind11.h>

namespace poem::python {

void add_metrics(pybind11::module_& module);
void add_mining(pybind11::module_& module);
void add_scores(pybind11::module_& module);
void add_detector(pybind11::module_& module);

// Calls work() while other Python threads run. `work` must not touch Python objects.
template <class Work>
auto without_gil(const Work& work) {
  const pybind11::gil_scoped_release release;
  return work();
}

}  // namespace poem::python
