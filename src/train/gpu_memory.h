// Whether a GPU has room for a training, asked before any image is read.
//
//   check_gpu_memory(config, device);   // an Error says how much is needed and what lowers it
#pragma once
#include <ATen/core/Tensor.h>

#include "poem/config.h"

namespace poem {

void check_gpu_memory(const Config& config, at::Device device);

// Images whose features are taken at a time: as many as keep a GPU busy, or fit into its or a computer's
// memory. `size`: side of an image in pixels.
int64_t images_per_block(int64_t size, at::Device device);

// Whether training computes in bfloat16 there; an Error if it cannot as it should.
bool computes_in_bf16(Precision precision, at::Device device);

}  // namespace poem
