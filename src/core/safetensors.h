// The safetensors format: named tensors and a map of texts in one file that Python opens without running
// code.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace poem {

struct TensorFile {
  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, std::string> metadata;

  // The tensor or text of that name; an Error naming `path` if there is none.
  const at::Tensor& tensor(const std::string& name) const;
  const std::string& text(const std::string& name) const;
  std::string path;  // where it was read from
};

// The same content gives the same bytes. Written atomically.
void write_safetensors(const std::string& path, const TensorFile& file);
// `remedy`: what helps where the file is damaged.
TensorFile read_safetensors(const std::string& path,
                            const std::string& remedy = "write or copy the file again");

}  // namespace poem
