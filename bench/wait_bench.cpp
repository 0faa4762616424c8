// How OpenMP's threads wait for work: in poem they sleep soon, libgomp by itself lets them spin for
// milliseconds first. On an idle machine that must cost nearly nothing; beside other programs it must gain a
// lot.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "compare.h"
#include "core/runtime.h"
#include "stepper.h"

namespace poem::bench {
namespace {

// As many programs as there are cores, each of which never waits for anything.
class BusyPrograms {
 public:
  BusyPrograms() {
    for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) {
      const pid_t child = fork();
      if (child < 0) throw std::runtime_error("no process");
      if (child == 0) {
        for (;;) asm volatile("");  // busy till it is killed
      }
      children_.push_back(child);
    }
  }
  BusyPrograms(const BusyPrograms&) = delete;
  BusyPrograms& operator=(const BusyPrograms&) = delete;
  ~BusyPrograms() {
    for (const pid_t child : children_) kill(child, SIGKILL);
    for (const pid_t child : children_) waitpid(child, nullptr, 0);
  }

 private:
  std::vector<pid_t> children_;
};

// Of a step that begins when no thread of the other side spins any more.
double step_seconds(Stepper& side) {
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto start = std::chrono::steady_clock::now();
  side.step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

POEM_BENCH(wait) {
  const std::vector<std::string> demo = {beside("train_step"), "demo"};
  Stepper ours(demo), spinning(demo, {kOpenMpWait.variable, "300000"});  // libgomp's own number
  const auto compare_steps = [&](const char* what, double at_most, int repeats) {
    std::vector<double> our_times, spinning_times;
    for (int i = 0; i < repeats; ++i) {
      our_times.push_back(step_seconds(ours));
      spinning_times.push_back(step_seconds(spinning));
    }
    hold(what, median(our_times), median(spinning_times), at_most);
  };
  compare_steps("demo network, train step / threads that spin, alone", 1.02, 100);
  const BusyPrograms others;
  compare_steps("demo network, train step / threads that spin, cores busy", 0.5, 5);
}

}  // namespace poem::bench
