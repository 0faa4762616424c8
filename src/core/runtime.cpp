#include "core/runtime.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <malloc.h>
#include <omp.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>

#include "core/terminal.h"
#include "poem/error.h"

#ifdef POEM_HAS_CUDA
#include <cuda_runtime_api.h>
#endif
#ifdef POEM_HAS_CBLAS
extern "C" void openblas_set_num_threads(int) __attribute__((weak));  // absent from other BLAS libraries
#endif

namespace poem {
namespace {

std::atomic<int> signal_seen{0};
std::atomic<const char*> interrupt_lead{"\n"};  // wipes the progress view where there is one
std::atomic<bool> interrupt_saves{false};

const char* words_on(int signal, bool saves) {
  if (signal == SIGINT) {
    return saves ? "finishing this step and saving; Ctrl-C again quits without saving\n"
                 : "stopping; Ctrl-C again quits at once\n";
  }
  return saves ? "asked to stop: finishing this step and saving; the same signal again quits without saving\n"
               : "stopping; the same signal again quits at once\n";
}

void note_interrupt(int signal) {
  signal_seen = signal;
  std::signal(signal, SIG_DFL);
  for (const char* text : {interrupt_lead.load(), words_on(signal, interrupt_saves)}) {
    if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return;  // nobody reads it
  }
}

}  // namespace

int cores() { return std::max(omp_get_num_procs(), 1); }

void set_up_runtime(int threads) {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_TOP_PAD, 64 << 20);
  const int count = threads > 0 ? threads : cores();
  at::set_num_threads(count);
#ifdef POEM_HAS_CBLAS
  if (openblas_set_num_threads != nullptr) openblas_set_num_threads(count);
#endif
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
    throw Error("--device " + name, "is unknown", "known: auto, cpu and cuda");
  }
  if (!cuda) {
#ifdef POEM_HAS_CUDA
    throw Error("--device cuda", "there is no GPU, or no driver for it", "use --device cpu");
#else
    throw Error("--device cuda", "this poem was built with a LibTorch without CUDA",
                "use --device cpu, or build with the preset cuda");
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

void catch_interrupts() {
  signal_seen = 0;
  interrupt_lead = terminal(STDERR_FILENO).live ? kWipe : "\n";
  for (const int signal : kInterrupts) {
    struct sigaction before;
    ::sigaction(signal, nullptr, &before);
    if (signal == SIGHUP && before.sa_handler == SIG_IGN) continue;
    std::signal(signal, note_interrupt);
  }
}

SaveOnInterrupt::SaveOnInterrupt() { interrupt_saves = true; }
SaveOnInterrupt::~SaveOnInterrupt() { interrupt_saves = false; }

bool interrupted() { return signal_seen != 0; }

int interrupt_signal() { return signal_seen; }

void stop_if_interrupted() {
  if (interrupted()) throw Interrupted();
}

}  // namespace poem
