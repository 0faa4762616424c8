#include "core/interrupts.h"

#include <unistd.h>

#include <atomic>
#include <cstring>

#include "core/terminal.h"

namespace poem {
namespace {

std::atomic<int> signal_seen{0};
std::atomic<bool> interrupt_answers{true};
std::atomic<const char*> interrupt_lead{"\n"};  // wipes the progress view where there is one
std::atomic<bool> interrupt_saves{false};

const char* words_on(int signal, bool saves) {
  if (signal == SIGINT) {
    return saves ? "finishing this step and saving; Ctrl-C again quits without saving\n"
                 : "stopping; Ctrl-C again quits at once\n";
  }
  return saves ? "asked to stop: finishing this step and saving; the same signal again quits without saving\n"
               : "asked to stop; the same signal again quits at once\n";
}

void note_interrupt(int signal) {
  signal_seen = signal;
  std::signal(signal, SIG_DFL);
  if (!interrupt_answers) return;
  for (const char* text : {interrupt_lead.load(), words_on(signal, interrupt_saves)}) {
    if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return;  // nobody reads it
  }
}

}  // namespace

void catch_interrupts(bool answer) {
  signal_seen = 0;
  interrupt_answers = answer;
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
