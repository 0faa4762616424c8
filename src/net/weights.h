// A network's tensors to and from a file of named tensors, under a common prefix.
#pragma once
#include <string>

#include "core/safetensors.h"
#include "poem/network.h"

namespace poem {

void store_weights(const Network& network, const std::string& prefix, TensorFile& file);
// A tensor that is missing or of another shape is an Error naming the file.
void load_weights(Network& network, const std::string& prefix, const TensorFile& file);

// A copy of the tensor of that name in the file; an Error if it is missing, of another shape or type, or not
// finite.
at::Tensor stored_tensor(const Weights& weights, const std::string& name, at::IntArrayRef sizes);

// Whether the parameter belongs to what follows the features: the last layer, and a projection before it.
bool in_head(const std::string& parameter);

// Whether the network begins with a 7×7 convolution: it is made for images of 224×224 pixels.
bool for_large_images(const Network& network);

// Copies file.tensor(name) into `target`, which keeps its layout and device; an Error
// likewise.
void load_tensor(const TensorFile& file, const std::string& name, at::Tensor target);

}  // namespace poem
