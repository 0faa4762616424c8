// SVHN's cropped digits: X is 32×32×3×N uint8, y holds 1 … 10, 10 being the digit 0.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/mapped_file.h"
#include "core/memory.h"
#include "poem/error.h"
#include "readers/reader_tools.h"

#ifdef POEM_HAS_MATIO
#include <matio.h>
#endif

namespace poem {
namespace {

bool is_mat(const std::string& path) { return has_extension(path, ".mat"); }

#ifdef POEM_HAS_MATIO

// matio accepts some truncated files. A file of version 5 is a header of 128 bytes and elements
// that start with their type and size (little-endian if "IM" says so), so its end is known without reading
// it.
void check_complete(const std::string& path) {
  constexpr size_t kHeader = 128;
  const MappedFile file(path);
  if (file.size() < kHeader) throw Error(path, "is too short for a MATLAB file", "download it again");
  if (std::memcmp(file.data() + kHeader - 4, "\x00\x01IM", 4) != 0) return;  // another version: left to matio
  uint64_t end = kHeader;
  while (end + 8 <= file.size()) {
    uint32_t bytes;
    std::memcpy(&bytes, file.data() + end + 4, sizeof bytes);
    end += 8 + uint64_t{bytes};
  }
  if (end != file.size())
    throw Error(path,
                fmt::format("is truncated: it has {} bytes of at least {}", file.size(),
                            end < file.size() ? end + 8 : end),
                "download it again");
}

using Variable = std::unique_ptr<matvar_t, void (*)(matvar_t*)>;

[[noreturn]] void unreadable(const std::string& path, const char* name) {
  throw Error(path, fmt::format("has no variable {} that can be read", name), "download SVHN's file again");
}

// A variable of which only the header has been read.
Variable find_variable(const std::string& path, mat_t* file, const char* name) {
  Variable variable(Mat_VarReadInfo(file, name), Mat_VarFree);
  if (variable == nullptr) unreadable(path, name);
  return variable;
}

int64_t count_of(const std::string& path, const matvar_t& variable) {
  int64_t count = 1;
  for (int i = 0; i < variable.rank; ++i) {
    if (__builtin_mul_overflow(count, variable.dims[i], &count) || count > (int64_t{1} << 56))
      throw Error(path, fmt::format("variable {} claims an impossible size", variable.name),
                  "download SVHN's file again");
  }
  return count;
}

// matio unpacks a variable as a whole.
void read_elements(const std::string& path, mat_t* file, matvar_t& variable) {
  const char* remedy = "free some memory, or save the images as .npy";
  // At the same time the converted images are in memory.
  check_memory(path,
               2 * static_cast<uint64_t>(count_of(path, variable)) * Mat_SizeOfClass(variable.class_type),
               remedy);
  if (Mat_VarReadDataAll(file, &variable) != 0 || variable.data == nullptr) unreadable(path, variable.name);
}

// SVHN stores labels as uint8, MATLAB by default as double.
at::Tensor label_values(const std::string& path, const matvar_t& y) {
  const int64_t count = count_of(path, y);
  if (y.class_type == MAT_C_UINT8) return at::from_blob(y.data, {count}, at::kByte).to(at::kLong);
  if (y.class_type != MAT_C_DOUBLE)
    throw Error(path, "y is neither uint8 nor double", "name a file of SVHN's cropped digits");
  const at::Tensor values = at::from_blob(y.data, {count}, at::kDouble);
  const at::Tensor broken = values.ne(values.round()).nonzero();  // NaN too
  if (broken.size(0) > 0) {
    const auto image = broken[0][0].item<int64_t>();
    throw Error(path, fmt::format("image {} has label {}", image, values[image].item<double>()),
                "labels are the whole numbers from 1 to 10");
  }
  return values.to(at::kLong);
}

Labels visit_mat(const std::string& path, const ReadOptions&, const Sink& sink) {
  check_complete(path);
  const std::unique_ptr<mat_t, int (*)(mat_t*)> file(Mat_Open(path.c_str(), MAT_ACC_RDONLY), Mat_Close);
  if (file == nullptr) throw Error(path, "is not a MATLAB file", "download SVHN's file again");
  const Variable y = find_variable(path, file.get(), "y"), x = find_variable(path, file.get(), "X");
  if (x->class_type != MAT_C_UINT8 || x->rank != 4 || x->dims[2] != 3)
    throw Error(path, "X is not a uint8 array of 32×32×3×N", "name a file of SVHN's cropped digits");
  for (const Variable* variable : {&y, &x}) read_elements(path, file.get(), **variable);
  const auto height = static_cast<int64_t>(x->dims[0]), width = static_cast<int64_t>(x->dims[1]),
             count = static_cast<int64_t>(x->dims[3]);
  const at::Tensor digits = label_values(path, *y);
  if (digits.size(0) != count)
    throw Error(path, fmt::format("has {} images but {} labels", count, digits.size(0)), "download it again");
  check_labels(path, digits, 1, 10);
  // MATLAB stores the first index fastest.
  visit_in_blocks(at::from_blob(x->data, {count, 3, width, height}, at::kByte).transpose(2, 3), sink);
  return {digits.remainder(10), number_names(10)};
}

#else

Labels visit_mat(const std::string& path, const ReadOptions&, const Sink&) {
  throw Error(path, ".mat files cannot be read: poem was built without matio",
              "build with libmatio-dev, or save the images as .npy");
}

#endif

}  // namespace

extern const Reader mat_reader = {"SVHN .mat", is_mat, visit_mat};

}  // namespace poem
