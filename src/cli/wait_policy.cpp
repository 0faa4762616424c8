// How long OpenMP's threads spin after a parallel loop before they sleep. By default libgomp lets them spin
// for milliseconds. Beside other programs this takes the cores from threads that have work to do, and a
// training becomes ten times slower. A thousand spins are enough on an idle machine and do little harm on a
// busy one (docs/performance.md).
//
// libgomp reads its environment when it is loaded, before main() begins. So the program starts itself again
// with the variable set, from the one place where code of a program runs before that of its libraries: by
// then they are loaded, but LibTorch's long start-up has not begun.
#include <sys/auxv.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "core/runtime.h"

namespace {

bool names(const char* variable, const char* name) {
  const size_t length = std::strlen(name);
  return std::strncmp(variable, name, length) == 0 && variable[length] == '=';
}

// `environ` is not set up yet, hence the third argument. Where the program cannot be started again it goes on
// as it is.
void start_with_wait_policy(int, char** argv, char** environment) {
  std::vector<char*> variables;
  for (; *environment != nullptr; ++environment) {
    if (names(*environment, "OMP_WAIT_POLICY") || names(*environment, poem::kSpins))
      return;  // the user's choice
    variables.push_back(*environment);
  }
  static char choice[64];
  std::strcat(std::strcat(std::strcpy(choice, poem::kSpins), "="), poem::kSpinCount);
  variables.push_back(choice);
  variables.push_back(nullptr);
  const bool by_kernel = ::getauxval(AT_BASE) != 0;  // and not by hand through the dynamic loader
  if (by_kernel) ::execve(reinterpret_cast<const char*>(::getauxval(AT_EXECFN)), argv, variables.data());
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const kBeforeLibraries)(int, char**,
                                                                             char**) = start_with_wait_policy;

}  // namespace
