// How long idle threads spin before they sleep. By default OpenMP's threads do so for milliseconds after a
// parallel loop, and OpenBLAS's for longer after a product. Beside other programs this takes the cores
// from threads that have work to do, and a training becomes ten times slower; in one program the threads of
// each library take them from those of the other. Ten thousand spins, or 16,384 cycles, are enough on an idle
// machine and do little harm on a busy one (docs/performance.md).
//
// The libraries read their environment when they are loaded, before main() begins. So the program starts
// itself again with the variables set, from the one place where code of a program runs before that of its
// libraries: by then they are loaded, but LibTorch's long start-up has not begun.
#include <sys/auxv.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/runtime.h"

namespace {

bool names(const char* variable, const char* name) {
  const size_t length = std::strlen(name);
  return std::strncmp(variable, name, length) == 0 && variable[length] == '=';
}

std::string assignment(const poem::WaitSetting& setting) {
  return std::string(setting.variable) + "=" + setting.value;
}

// `environ` is not set up yet, hence the third argument. What the user has chosen stays. Where the program
// cannot be started again it goes on as it is.
void start_with_wait_policy(int, char** argv, char** environment) {
  std::vector<char*> variables;
  bool openmp_chosen = false, blas_chosen = false;
  for (; *environment != nullptr; ++environment) {
    openmp_chosen |=
        names(*environment, "OMP_WAIT_POLICY") || names(*environment, poem::kOpenMpWait.variable);
    blas_chosen |= names(*environment, poem::kBlasWait.variable);
    variables.push_back(*environment);
  }
  if (openmp_chosen && blas_chosen) return;
  std::string openmp = assignment(poem::kOpenMpWait), blas = assignment(poem::kBlasWait);
  if (!openmp_chosen) variables.push_back(openmp.data());
  if (!blas_chosen) variables.push_back(blas.data());
  variables.push_back(nullptr);
  const bool by_kernel = ::getauxval(AT_BASE) != 0;  // and not by hand through the dynamic loader
  if (by_kernel) ::execve(reinterpret_cast<const char*>(::getauxval(AT_EXECFN)), argv, variables.data());
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const kBeforeLibraries)(int, char**,
                                                                             char**) = start_with_wait_policy;

}  // namespace
