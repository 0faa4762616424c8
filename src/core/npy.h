// NumPy's .npy and .npz files as tensors. Types: bool, (u)int8, int16, int32, int64, float16, float32,
// float64.
//
//   write_npy("scores.npy", scores);
//   auto arrays = read_npz("batch.npz");  // arrays.at("data"), arrays.at("labels")
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace poem {

// Throws poem::Error when the file is missing, truncated, of an unknown type, byte order or layout. The
// result is contiguous also where the file is in Fortran order.
at::Tensor read_npy(const std::string& path);
void write_npy(const std::string& path, const at::Tensor& array);  // atomically

// The same array as a view of the mapped file: nothing is loaded, nothing may be written to it, and a file in
// Fortran order comes back with the strides of one.
at::Tensor map_npy(const std::string& path);

// What NumPy calls the type of the elements: "float32".
std::string numpy_type(const at::Tensor& array);

// All arrays of an .npz (stored or deflated), by name without ".npy".
std::map<std::string, at::Tensor> read_npz(const std::string& path);
void write_npz(const std::string& path, const std::map<std::string, at::Tensor>& arrays);  // atomically

}  // namespace poem
