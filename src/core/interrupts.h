// Signals that ask the program to end. Loops of the library ask after every batch or block whether one has
// come. Only a program that calls catch_interrupts() catches any: without it, nothing here ever happens.
//
//   catch_interrupts();
//   for (…) {
//     stop_if_interrupted();
//     …
//   }
#pragma once
#include <csignal>
#include <exception>

namespace poem {

// From now on Ctrl-C (SIGINT), SIGTERM and SIGHUP do not end the program at once. The same signal again does.
// A program that was started to ignore SIGHUP (nohup) still ignores it. With `answer`, the first signal is
// answered in words; in a job of several processes one of them answers.
void catch_interrupts(bool answer = true);
bool interrupted();      // since the last call of catch_interrupts()
int interrupt_signal();  // which signal it was last

// While it lives, the answer to a signal says that the work is saved.
class SaveOnInterrupt {
 public:
  SaveOnInterrupt();
  ~SaveOnInterrupt();
  SaveOnInterrupt(const SaveOnInterrupt&) = delete;
  SaveOnInterrupt& operator=(const SaveOnInterrupt&) = delete;
};

// A signal ended the work: exit code 128 + its number, as in shells. LibTorch's threads pass on exceptions of
// the standard library only.
struct Interrupted : std::exception {};
void stop_if_interrupted();  // throws it, where there is nothing to save

// The signals that catch_interrupts() catches.
constexpr int kInterrupts[] = {SIGINT, SIGTERM, SIGHUP};

}  // namespace poem
