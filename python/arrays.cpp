#include "arrays.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

#include "core/npy.h"
#include "poem/error.h"

namespace poem::python {
namespace {

namespace py = pybind11;

py::object numpy(const char* function) { return py::module_::import("numpy").attr(function); }

py::array as_array(const py::object& object) { return numpy("asarray")(object); }

std::string described(const py::array& array) {
  const auto shape = array.ndim() == 0
                         ? "()"
                         : fmt::format("{}", fmt::join(array.shape(), array.shape() + array.ndim(), "×"));
  return fmt::format("has shape {} of {}", shape, std::string(py::str(array.dtype())));
}

void check(bool fits, const std::string& where, const py::array& array, const char* remedy) {
  if (!fits) throw Error(where, described(array), remedy);
}

bool is_float(const py::array& array) { return array.dtype().kind() == 'f' && array.itemsize() <= 8; }

bool is_integer(const py::array& array) { return array.dtype().kind() == 'i' || array.dtype().kind() == 'u'; }

at::ScalarType torch_type(const py::dtype& dtype) {
  if (dtype.kind() == 'u') return at::kByte;
  if (dtype.kind() == 'i') return at::kLong;
  return dtype.itemsize() == 2 ? at::kHalf : dtype.itemsize() == 4 ? at::kFloat : at::kDouble;
}

// The array as `dtype` in C order.
Array over(const py::array& array, const py::object& dtype) {
  py::array ordered = numpy("ascontiguousarray")(array, dtype);
  const std::vector<int64_t> shape(array.shape(), array.shape() + array.ndim());
  // LibTorch has no tensors for reading only.
  const at::Tensor tensor =
      at::from_blob(const_cast<void*>(ordered.data()), shape, torch_type(ordered.dtype()));
  return {std::move(ordered), tensor};
}

// Its own type in this machine's byte order.
py::object native_type(const py::array& array) { return array.dtype().attr("newbyteorder")("="); }

}  // namespace

Array features_from(const std::string& where, const py::object& object) {
  const py::array array = as_array(object);
  check(is_float(array) && array.ndim() == 2, where, array,
        "give rows × features as float16, float32 or float64");
  check(array.shape(0) > 0, where, array, "give at least one row");
  check(array.shape(1) > 0, where, array, "give at least one feature");
  return over(array, native_type(array));
}

Array numbers_from(const std::string& where, const py::object& object) {
  const py::array array = as_array(object);
  check((is_float(array) || is_integer(array)) && array.ndim() == 1, where, array, "give one number per row");
  return over(array, py::dtype::of<double>());
}

Array labels_from(const std::string& where, const py::object& object) {
  const py::array array = as_array(object);
  check(is_integer(array) && array.ndim() == 1, where, array, "give one integer per row");
  return over(array, py::dtype::of<int64_t>());
}

Array floats_from(const std::string& where, const py::object& object) {
  const py::array array = as_array(object);
  check(is_float(array), where, array, "give float16, float32 or float64");
  return over(array, native_type(array));
}

Array bytes_from(const std::string& where, const py::object& object) {
  const py::array array = as_array(object);
  check(array.dtype().kind() == 'u' && array.itemsize() == 1, where, array,
        "give pixels from 0 to 255 as uint8, or paths of images: a str or os.PathLike, or a list of them");
  return over(array, array.dtype());
}

py::array to_numpy(const at::Tensor& tensor) {
  auto values = std::make_unique<at::Tensor>(tensor.contiguous());
  const py::dtype dtype(numpy_type(*values));
  const std::vector<py::ssize_t> shape(values->sizes().begin(), values->sizes().end());
  const void* data = values->data_ptr();
  const py::capsule owner(values.release(), [](void* p) { delete static_cast<at::Tensor*>(p); });
  return py::array(dtype, shape, data, owner);
}

}  // namespace poem::python
