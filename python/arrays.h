// NumPy arrays as tensors and tensors as NumPy arrays. Nothing is copied that already has the right type and
// lies in C order; other orders and strides are copied once.
//
//   const Array pool = features_from("pool", object);
//   mine_features(…, pool.tensor, …);
//   return to_numpy(scores);
#pragma once
#include <ATen/core/Tensor.h>
#include <pybind11/numpy.h>

#include <cstdint>
#include <string>

namespace poem::python {

// A tensor over the memory of an array: valid as long as the array is.
struct Array {
  pybind11::array owner;
  at::Tensor tensor;
};

// Each takes whatever numpy.asarray takes. Another type or shape is an Error that names the argument `where`.
Array features_from(const std::string& where,
                    const pybind11::object& object);  // n×m float16 to float64; n, m > 0
Array numbers_from(const std::string& where,
                   const pybind11::object& object);  // n float64, of integers or floats
Array labels_from(const std::string& where, const pybind11::object& object);  // n int64, of integers
Array floats_from(const std::string& where, const pybind11::object& object);  // floats of any shape
Array bytes_from(const std::string& where, const pybind11::object& object);   // uint8 of any shape

// An Error if so many float64 matrices of columns × columns do not fit into memory.
void check_square_memory(const std::string& where, int64_t columns, int matrices);

// The array uses the memory of a CPU tensor and keeps it alive.
pybind11::array to_numpy(const at::Tensor& tensor);

}  // namespace poem::python
