// Whether this computer has room for what a config asks for: an Error names the key and both numbers. (What a
// GPU needs is asked by train/gpu_memory.h.)
//
//   check_memory(config, network);                  // before an image is read
//   check_step_memory(config, network, id_images);  // when their number is known
#pragma once
#include <cstdint>
#include <functional>

#include "poem/config.h"
#include "poem/network.h"

namespace poem {

// Pool, queue, parameters and blocks of features; `network`: one such as the config asks for, its shapes
// suffice.
void check_memory(const Config& config, const Network& network);

// A train step on the CPU, `id_images` being those that are trained on.
void check_step_memory(const Config& config, const NetworkSpec& spec, int64_t id_images);

// The most bytes that tensors of this thread take at once, beyond those there are, while `work` runs.
int64_t peak_bytes(const std::function<void()>& work);

}  // namespace poem
