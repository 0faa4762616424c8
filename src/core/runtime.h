// What surrounds the computation: threads, allocator, device, signals. main() calls set_up_runtime() once.
#pragma once
#include <c10/core/Device.h>

#include <csignal>
#include <string>

namespace poem {

// The cores that this process may use: in a container or a job often fewer than the machine has.
int cores();

// Sets LibTorch's and BLAS's thread counts (0: all cores) and makes the allocator keep freed memory: glibc
// otherwise maps and faults every large tensor anew, which costs more than half of a training step.
void set_up_runtime(int threads);

// How often OpenMP's threads look for work before they sleep: the variable that libgomp reads when it is
// loaded, and what the program sets it to (cli/wait_policy.cpp).
constexpr const char *kSpins = "GOMP_SPINCOUNT", *kSpinCount = "1000";

// What the bits of a result depend on, apart from config and seed.
struct Runtime {
  int threads;
  std::string libtorch;        // "1.13.1"
  std::string cpu_capability;  // "AVX2"
};
Runtime runtime();

// "auto" (CUDA if there is a GPU), "cpu" or "cuda"; an Error if the device is not available.
c10::Device pick_device(const std::string& name);

// Whether it is a GPU that computes in bfloat16 with poem's kernels.
bool has_bf16(c10::Device device);

// From catch_interrupts() on, Ctrl-C (SIGINT), SIGTERM and SIGHUP are noted, not obeyed at once: loops ask
// after every batch or block. The same signal again ends the program. A program that was started to ignore
// SIGHUP (nohup) goes on ignoring it.
void catch_interrupts();
bool interrupted();      // since the last call of catch_interrupts()
int interrupt_signal();  // which signal it was last

// While it lives, whoever sends a signal is told that the work is saved.
class SaveOnInterrupt {
 public:
  SaveOnInterrupt();
  ~SaveOnInterrupt();
  SaveOnInterrupt(const SaveOnInterrupt&) = delete;
  SaveOnInterrupt& operator=(const SaveOnInterrupt&) = delete;
};

struct Interrupted {};       // a signal was handled: exit code 128 + its number, as shells have it
void stop_if_interrupted();  // throws it, where there is nothing to save

// The signals that catch_interrupts() catches.
constexpr int kInterrupts[] = {SIGINT, SIGTERM, SIGHUP};

}  // namespace poem
