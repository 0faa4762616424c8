#include "net/weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/StringUtil.h>

#include "core/error.h"

namespace poem {

void store_weights(const Network& network, const std::string& prefix, TensorFile& file) {
  for (const auto& [name, tensor] : network.parameters()) file.tensors[prefix + name] = tensor;
  for (const auto& [name, tensor] : network.buffers()) file.tensors[prefix + name] = tensor;
}

void load_weights(Network& network, const std::string& prefix, const TensorFile& file) {
  for (const auto& [name, tensor] : network.parameters()) load_tensor(file, prefix + name, tensor);
  for (const auto& [name, tensor] : network.buffers()) load_tensor(file, prefix + name, tensor);
}

void load_tensor(const TensorFile& file, const std::string& name, at::Tensor target) {
  const at::NoGradGuard no_grad;
  const at::Tensor& stored = file.tensor(name);
  if (stored.sizes() != target.sizes()) {
    throw Error(file.path,
                c10::str("tensor '", name, "' has shape ", stored.sizes(), ", expected ", target.sizes()),
                "it belongs to another network");
  }
  target.copy_(stored);
}

}  // namespace poem
