// The parts of the module poem._core: one function per file, each called once by module.cpp.
#pragma once
#include <pybind11/pybind11.h>

namespace poem::python {

void add_metrics(pybind11::module_& module);
void add_mining(pybind11::module_& module);
void add_scores(pybind11::module_& module);
void add_detector(pybind11::module_& module);

// In a forked process: makes this thread compute alone from now on. OpenMP's other threads did not come
// along, and it would wait for them for ever.
void compute_alone_if_forked();

// Calls work() while other Python threads run. `work` must not touch Python objects. All computing is done in
// such a call.
template <class Work>
auto without_gil(const Work& work) {
  const pybind11::gil_scoped_release release;
  compute_alone_if_forked();
  return work();
}

}  // namespace poem::python
