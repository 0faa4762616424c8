#include "core/runtime.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <malloc.h>
#include <omp.h>
#include <torch/version.h>

#include <algorithm>
#include <thread>

#include "poem/error.h"

#ifdef POEM_HAS_CUDA
#include <cuda_runtime_api.h>
#endif
#ifdef POEM_HAS_CBLAS
extern "C" void openblas_set_num_threads(int) __attribute__((weak));  // absent from other BLAS libraries
#endif

namespace poem {

int cores() { return std::max(omp_get_num_procs(), 1); }

void set_up_runtime(int threads) {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_TOP_PAD, 64 << 20);
  const int count = threads > 0 ? threads : cores();
  at::set_num_threads(count);
  // In its first operation a thread takes over the number that was set last, and LibTorch then starts a pool
  // of as many threads anew, which are not used and spin for a while. So 1 is set last, by another
  // thread than this one, which keeps its own number.
  use_threads_here(count);
  std::thread([] { at::set_num_threads(1); }).join();
#ifdef POEM_HAS_CBLAS
  if (openblas_set_num_threads != nullptr) openblas_set_num_threads(count);
#endif
}

void set_up_service_memory(int threads) {
  constexpr int kMostBlocks = 1 << 16, kLarge = 32 << 20, kOthers = 4;
  mallopt(M_MMAP_MAX, kMostBlocks);
  mallopt(M_MMAP_THRESHOLD, kLarge);
  mallopt(M_ARENA_MAX, threads + kOthers * cores());  // a place to allocate for each thread
}

void use_threads_here(int count) {
  at::get_num_threads();  // the first call in a thread sets the number of the process
  omp_set_num_threads(count);
}

Runtime runtime() {
  // LibTorch 1.13 tells the CPU capability only inside this text.
  const std::string config = at::show_config(), label = "CPU capability usage: ";
  const auto start = config.find(label);
  std::string capability = "unknown";
  if (start != std::string::npos) {
    const auto begin = start + label.size();
    capability = config.substr(begin, config.find('\n', begin) - begin);
  }
  return {at::get_num_threads(), TORCH_VERSION, capability};
}

c10::Device pick_device(const std::string& name) {
  const bool cuda = at::hasCUDA() && at::globalContext().hasCUDA();
  if (name == "cpu" || (name == "auto" && !cuda)) return c10::Device(c10::kCPU);
  if (name != "cuda" && name != "auto") {
    throw Error("device " + name, "is unknown", "known: auto, cpu and cuda");
  }
  if (!cuda) {
#ifdef POEM_HAS_CUDA
    throw Error("device cuda", "there is no GPU, or no driver for it", "use device cpu");
#else
    throw Error("device cuda", "this poem was built with a LibTorch without CUDA",
                "use device cpu, or build with the preset cuda");
#endif
  }
  return c10::Device(c10::kCUDA, 0);
}

bool has_bf16([[maybe_unused]] c10::Device device) {
#ifdef POEM_HAS_CUDA
  int major = 0;
  return device.is_cuda() &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device.index()) == cudaSuccess &&
         major >= 8;
#else
  return false;
#endif
}

}  // namespace poem
