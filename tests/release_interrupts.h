// After a test that caught signals: none is pending, and each ends the program again.
#pragma once
#include <csignal>

#include "core/interrupts.h"

namespace poem {

inline void release_interrupts() {
  catch_interrupts();
  for (const int signal : kInterrupts) std::signal(signal, SIG_DFL);
}

}  // namespace poem
