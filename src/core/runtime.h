// What the computation runs on: cores, LibTorch's version, what the device can do. poem/runtime.h sets it up.
#pragma once
#include <c10/core/Device.h>

#include <string>

#include "poem/runtime.h"

namespace poem {

// The cores that this process may use: in a container or a job often fewer than the machine has.
int cores();

// How many threads the loops of the calling thread use from now on, on a CPU. Other threads keep their
// number.
void use_threads_here(int count);

// For a service with so many threads, after set_up_runtime(): none of them waits while another allocates, and
// large blocks go back to the system instead of being kept for the next computation.
void set_up_service_memory(int threads);

// How long idle threads look for work before they sleep: variables that OpenMP's library and OpenBLAS read
// when they are loaded, and what the program sets them to (cli/wait_policy.cpp). OpenBLAS takes the binary
// logarithm of a number of cycles.
struct WaitSetting {
  const char *variable, *value;
};
constexpr WaitSetting kOpenMpWait = {"GOMP_SPINCOUNT", "10000"},
                      kBlasWait = {"OPENBLAS_THREAD_TIMEOUT", "14"};

// What the bits of a result depend on, apart from config and seed.
struct Runtime {
  int threads;
  std::string libtorch;        // "1.13.1"
  std::string cpu_capability;  // "AVX2"
};
Runtime runtime();

// Whether it is a GPU that computes in bfloat16 with poem's kernels.
bool has_bf16(c10::Device device);

}  // namespace poem
