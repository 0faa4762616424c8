#include "arrays.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/memory.h"
#include "core/npy.h"
#include "poem/error.h"

namespace poem::python {
namespace {

namespace py = pybind11;

py::object numpy(const char* function) { return py::module_::import("numpy").attr(function); }

py::array as_array(const std::string& where, const py::object& object, const char* remedy) {
  try {
    return numpy("asarray")(object);
  } catch (const py::error_already_set& e) {
    const bool list = py::isinstance<py::list>(object) || py::isinstance<py::tuple>(object);
    if (!list || !e.matches(PyExc_ValueError)) throw;
  }
  throw Error(where, "is a list whose parts differ in shape", remedy);
}

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

// Unsigned integers from 2^63 on have become negative.
void check_no_overflow(const std::string& where, const at::Tensor& labels) {
  const int64_t* values = labels.data_ptr<int64_t>();
  const int64_t* bad = std::find_if(values, values + labels.numel(), [](int64_t label) { return label < 0; });
  if (bad != values + labels.numel())
    throw Error(where, fmt::format("row {} has label {}", bad - values, static_cast<uint64_t>(*bad)),
                "number the classes from 0");
}

// Its own type in this machine's byte order.
py::object native_type(const py::array& array) { return array.dtype().attr("newbyteorder")("="); }

}  // namespace

Array features_from(const std::string& where, const py::object& object) {
  constexpr const char* kRemedy = "give rows × features as float16, float32 or float64";
  const py::array array = as_array(where, object, kRemedy);
  check(is_float(array) && array.ndim() == 2, where, array, kRemedy);
  check(array.shape(0) > 0, where, array, "give at least one row");
  check(array.shape(1) > 0, where, array, "give at least one feature");
  return over(array, native_type(array));
}

Array numbers_from(const std::string& where, const py::object& object) {
  constexpr const char* kRemedy = "give one number per row";
  const py::array array = as_array(where, object, kRemedy);
  check((is_float(array) || is_integer(array)) && array.ndim() == 1, where, array, kRemedy);
  return over(array, py::dtype::of<double>());
}

Array labels_from(const std::string& where, const py::object& object) {
  constexpr const char* kRemedy = "give one integer per row";
  const py::array array = as_array(where, object, kRemedy);
  check(is_integer(array) && array.ndim() == 1, where, array, kRemedy);
  const Array labels = over(array, py::dtype::of<int64_t>());
  if (array.dtype().kind() == 'u') check_no_overflow(where, labels.tensor);
  return labels;
}

Array floats_from(const std::string& where, const py::object& object) {
  constexpr const char* kRemedy = "give float16, float32 or float64";
  const py::array array = as_array(where, object, kRemedy);
  check(is_float(array), where, array, kRemedy);
  return over(array, native_type(array));
}

Array bytes_from(const std::string& where, const py::object& object) {
  constexpr const char* kRemedy =
      "give pixels from 0 to 255 as uint8, all images of one size, or paths of images: a str or os.PathLike, "
      "or a list of them";
  const py::array array = as_array(where, object, kRemedy);
  check(array.dtype().kind() == 'u' && array.itemsize() == 1, where, array, kRemedy);
  return over(array, array.dtype());
}

void check_square_memory(const std::string& where, int64_t columns, int matrices) {
  constexpr double kSmall = 64 << 20;  // bytes: looking for free memory takes longer than a small fit
  const auto side = static_cast<double>(columns);
  const double bytes = std::min(matrices * side * side * sizeof(double), 0x1p63);
  if (bytes > kSmall)
    check_memory(where, static_cast<uint64_t>(bytes), "give features of the last layer, not pixels");
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
