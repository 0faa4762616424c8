// Set-up of a whole process, for programs that want it. Other calls of the library change neither the number
// of threads nor the allocator, draw no progress bar, and choose no device.
//
//   set_up_runtime(/*threads=*/0);
//   set_up_logging(/*quiet=*/false);
//   detector.network->to(pick_device("auto"));
#pragma once
#include <c10/core/Device.h>

#include <string>

namespace poem {

// Sets the number of threads of LibTorch and BLAS (0: one per core) and makes glibc's allocator keep the
// memory that it has. Otherwise glibc maps every large tensor anew, which takes more than half of the time of
// a training step. Call it once, before other threads start. They compute with one thread each in LibTorch
// until they call omp_set_num_threads() after at::get_num_threads().
void set_up_runtime(int threads);

// The library logs through spdlog's default logger, which prints to stdout. This replaces that logger by one
// that prints plain lines on stderr; if `quiet`, warnings only.
void set_up_logging(bool quiet);

// Progress bars on stderr, if it is a terminal. They are off until a program switches them on.
void show_progress(bool on);

// "cpu", "cuda", or "auto": CUDA if there is a GPU. A device that is not there is an Error.
c10::Device pick_device(const std::string& name);

}  // namespace poem
