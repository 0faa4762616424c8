#include "net/weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/StringUtil.h>

#include <algorithm>

#include "core/npy.h"
#include "poem/error.h"

namespace poem {
namespace {

void check_stored(const TensorFile& file, const std::string& name, const at::Tensor& stored,
                  at::IntArrayRef sizes, at::ScalarType type) {
  const auto fail = [&](const std::string& what, const char* remedy) {
    throw Error(file.path, "tensor '" + name + "' " + what, remedy);
  };
  if (stored.sizes() != sizes)
    fail(c10::str("has shape ", stored.sizes(), ", expected ", sizes), "it belongs to another network");
  if (stored.scalar_type() != type)
    fail("has elements of type " + numpy_type(stored) + ", expected " + numpy_type(at::empty({0}, type)),
         "it was made by something else");
  if (!at::isfinite(stored).all().item<bool>())
    fail("contains a value that is not finite", "copy it again, or train again");
}

}  // namespace

void store_weights(const Network& network, const std::string& prefix, TensorFile& file) {
  for (const auto& [name, tensor] : network.parameters()) file.tensors[prefix + name] = tensor;
  for (const auto& [name, tensor] : network.buffers()) file.tensors[prefix + name] = tensor;
}

void load_weights(Network& network, const std::string& prefix, const TensorFile& file) {
  for (const auto& [name, tensor] : network.parameters()) load_tensor(file, prefix + name, tensor);
  for (const auto& [name, tensor] : network.buffers()) load_tensor(file, prefix + name, tensor);
}

at::Tensor stored_tensor(const Weights& weights, const std::string& name, at::IntArrayRef sizes) {
  const at::Tensor& stored = weights.file->tensor(weights.prefix + name);
  check_stored(*weights.file, weights.prefix + name, stored, sizes, at::kFloat);
  return stored.clone();
}

bool in_head(const std::string& parameter) {
  return parameter.rfind("linear.", 0) == 0 || parameter.rfind("projection.", 0) == 0;
}

bool for_large_images(const Network& network) {
  const Network::Named parameters = network.parameters();
  return std::any_of(parameters.begin(), parameters.end(), [](const auto& parameter) {
    return parameter.first == "stem.weight" && parameter.second.size(2) == 7;
  });
}

void load_tensor(const TensorFile& file, const std::string& name, at::Tensor target) {
  const at::NoGradGuard no_grad;
  const at::Tensor& stored = file.tensor(name);
  check_stored(file, name, stored, target.sizes(), target.scalar_type());
  target.copy_(stored);
}

}  // namespace poem
