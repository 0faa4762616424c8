// How idle threads wait for work: in poem they sleep soon, by themselves OpenMP's and OpenBLAS's threads spin
// for milliseconds first. On an idle machine that must cost nearly nothing, or gain where both take turns;
// beside other programs it must gain a lot.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
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
  // The numbers of libgomp and OpenBLAS themselves.
  const std::pair<std::string, std::string> spins = {kOpenMpWait.variable, "300000"},
                                            blas_spins = {kBlasWait.variable, "26"};
  const auto compare_steps = [](const char* what, Stepper& ours, Stepper& spinning, double at_most,
                                int repeats) {
    std::vector<double> our_times, spinning_times;
    for (int i = 0; i < repeats; ++i) {
      our_times.push_back(step_seconds(ours));
      spinning_times.push_back(step_seconds(spinning));
    }
    hold(what, median(our_times), median(spinning_times), at_most);
  };
  {
    const std::vector<std::string> products = {beside("train_step"), "mlp"};
    Stepper ours(products), spinning(products, blas_spins);
    compare_steps("MLP, scoring 20,000 images / BLAS threads that spin, alone", ours, spinning, 0.95, 20);
  }
  const std::vector<std::string> demo = {beside("train_step"), "demo"};
  Stepper ours(demo), spinning(demo, spins);
  compare_steps("demo network, train step / threads that spin, alone", ours, spinning, 1.02, 100);
  const BusyPrograms others;
  compare_steps("demo network, train step / threads that spin, cores busy", ours, spinning, 0.5, 5);
}

}  // namespace poem::bench
