// NumPy's .npy and .npz files as tensors, whole or row by row.
//
//   write_npy("scores.npy", scores);
//   auto arrays = read_npz("head.npz");           // arrays.at("weight"), arrays.at("bias")
//   const StoredArray data = open_npy("huge.npy");  // its header alone is read
//   data.for_each_block(1000, [&](const at::Tensor& rows) { … });
//
// Types: bool, (u)int8 to (u)int64 and float16 to float64, of either byte order. LibTorch has no uint16,
// uint32 and uint64: these become int32 and int64, and a number that does not fit is an Error.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/file.h"

namespace poem {

// An array in a file. Its header has been read and checked against the file's size; its elements have not
// been read. An array of another type (texts, complex numbers, fields) can be listed but not read.
class StoredArray {
 public:
  const std::string& where() const { return where_; }  // for messages: "a.npz[data.npy]"
  const std::string& type() const { return type_; }    // as NumPy calls it: "uint16"
  const std::vector<int64_t>& shape() const { return shape_; }
  uint64_t bytes() const;  // of memory that all elements take

  // All of it, contiguous. An Error if it does not fit into memory.
  at::Tensor read() const;

  // Calls use() with `rows` rows at a time, fewer at the end, and keeps only these in memory; an array in
  // Fortran order is read as a whole. The array has at least one dimension.
  void for_each_block(int64_t rows, const std::function<void(const at::Tensor&)>& use) const;

 private:
  friend StoredArray open_npy(const std::string& path);
  friend std::map<std::string, StoredArray> open_npz(const std::string& path);
  using Open = std::function<std::unique_ptr<ByteStream>()>;  // of the file with its header
  StoredArray(std::string where, uint64_t file_bytes, Open open);
  std::unique_ptr<ByteStream> open_elements() const;
  at::Tensor read_elements(ByteStream& from, const std::vector<int64_t>& shape) const;
  at::Tensor read_as_stored() const;  // with the strides of Fortran order where the file has it

  std::string where_, type_;
  std::vector<int64_t> shape_;
  bool swapped_ = false, fortran_ = false;
  uint64_t header_bytes_ = 0;
  Open open_;
};

// A poem::Error if the file is missing, truncated or not an array.
StoredArray open_npy(const std::string& path);
at::Tensor read_npy(const std::string& path);
void write_npy(const std::string& path, const at::Tensor& array);  // atomically

// A .npy file of records, which NumPy indexes by the names of the fields: numpy.load(path)["score"]. Each
// field has either texts (bytes in NumPy, padded with zeros) or numbers (float64), as many as all others.
struct RecordField {
  std::string name;
  std::vector<std::string> texts;
  std::vector<double> numbers;
};
std::string npy_records(const std::vector<RecordField>& fields);

// All arrays of an .npz (stored or deflated), by name without ".npy".
std::map<std::string, StoredArray> open_npz(const std::string& path);
std::map<std::string, at::Tensor> read_npz(const std::string& path);
void write_npz(const std::string& path, const std::map<std::string, at::Tensor>& arrays);  // atomically

// What NumPy calls the type of the elements: "float32".
std::string numpy_type(const at::Tensor& array);

}  // namespace poem
