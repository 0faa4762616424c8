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

namespace poem {

// From now on Ctrl-C (SIGINT), SIGTERM and SIGHUP are noted, not obeyed at once. The same signal again ends
// the program. A program that was started to ignore SIGHUP (nohup) goes on ignoring it.
enum class OnInterrupt { kStop, kSave };  // what the program then says it does
void catch_interrupts(OnInterrupt action = OnInterrupt::kStop);
bool interrupted();      // since the last call of catch_interrupts()
int interrupt_signal();  // which signal it was last

struct Interrupted {};       // a signal was handled: exit code 128 + its number, as shells have it
void stop_if_interrupted();  // throws it, where there is nothing to save

// The signals that catch_interrupts() catches.
constexpr int kInterrupts[] = {SIGINT, SIGTERM, SIGHUP};

}  // namespace poem
