// What surrounds the computation: threads, allocator, device, Ctrl-C. main() calls set_up_runtime() once.
#pragma once
#include <c10/core/Device.h>

#include <string>

namespace poem {

// Sets LibTorch's and BLAS's thread counts (0: all cores) and makes the allocator keep what it has: glibc
// otherwise maps and faults every large tensor anew, which costs more than half of a training step.
void set_up_runtime(int threads);

// What the bits of a result depend on beside config and seed.
struct Runtime {
  int threads;
  std::string libtorch;        // "1.13.1"
  std::string cpu_capability;  // "AVX2"
};
Runtime runtime();

// "auto" (CUDA if there is one), "cpu" or "cuda"; an Error if it cannot be had.
c10::Device pick_device(const std::string& name);

// Whether it is a GPU that computes in bfloat16 with poem's kernels.
bool has_bf16(c10::Device device);

// From catch_interrupts() on, Ctrl-C is noted, not obeyed at once: loops ask after every batch or block. A
// second one ends the program.
void catch_interrupts();
bool interrupted();  // since the last call of catch_interrupts()

struct Interrupted {};       // Ctrl-C was handled: exit code 130
void stop_if_interrupted();  // throws it, where there is nothing to save

}  // namespace poem
