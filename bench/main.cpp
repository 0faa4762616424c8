#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "compare.h"
#include "core/runtime.h"

namespace poem::bench {
namespace {

struct Entry {
  const char* name;
  void (*body)();
};

std::vector<Entry>& entries() {
  static std::vector<Entry> all;
  return all;
}

int failures = 0;

double seconds(const std::function<void()>& side) {
  const auto start = std::chrono::steady_clock::now();
  side();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return 0.5 * (values[(values.size() - 1) / 2] + values[values.size() / 2]);
}

Registration::Registration(const char* name, void (*body)()) { entries().push_back({name, body}); }

void compare(const std::string& what, const std::function<void()>& ours,
             const std::function<void()>& baseline, double at_most, int repeats) {
  std::vector<double> our_times, baseline_times;
  ours();  // both sides start warm
  baseline();
  for (int i = 0; i < repeats; ++i) {
    our_times.push_back(seconds(ours));
    baseline_times.push_back(seconds(baseline));
  }
  hold(what, median(our_times), median(baseline_times), at_most);
}

void hold(const std::string& what, double our_seconds, double baseline_seconds, double at_most) {
  const double ratio = our_seconds / baseline_seconds;
  failures += !(ratio <= at_most);
  fmt::print("{:<60} {:10.3f} ms {:10.3f} ms  ratio {:6.3f}  at most {:5.2f}  {}\n", what, our_seconds * 1e3,
             baseline_seconds * 1e3, ratio, at_most, ratio <= at_most ? "pass" : "FAIL");
  std::fflush(stdout);
}

void time_once(const std::string& what, const std::function<void()>& ours, double at_most_seconds) {
  const double taken = seconds(ours);
  failures += !(taken <= at_most_seconds);
  fmt::print("{:<64} {:8.1f} s  at most {:5.0f} s  {}\n", what, taken, at_most_seconds,
             taken <= at_most_seconds ? "pass" : "FAIL");
  std::fflush(stdout);
}

void hold_figure(const std::string& what, double value, const std::string& unit, double at_most) {
  failures += !(value <= at_most);
  fmt::print("{:<64} {:8.1f} {}  at most {:5.0f} {}  {}\n", what, value, unit, at_most, unit,
             value <= at_most ? "pass" : "FAIL");
  std::fflush(stdout);
}

// In a process of its own: the heap and the threads that one benchmark leaves behind would slow the next.
bool passes(const Entry& entry) {
  fmt::print(stderr, "{}\n", entry.name);  // its lines may take minutes
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("no process for a benchmark");
  if (child == 0) {
    set_up_runtime(0);  // not before: LibTorch makes a pool anew after a fork, as it is first used
    entry.body();
    std::fflush(stdout);
    ::_exit(failures > 0 ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int run(std::string_view filter) {
  set_up_logging(/*quiet=*/true);  // nothing between the lines of the table
  std::sort(entries().begin(), entries().end(),
            [](const Entry& a, const Entry& b) { return std::string_view(a.name) < b.name; });
  fmt::print("{:<60} {:>13} {:>13}\n", fmt::format("medians, {} threads", cores()), "ours", "baseline");
  bool all_pass = true;
  for (const Entry& entry : entries()) {
    if (std::string_view(entry.name).find(filter) != std::string_view::npos) all_pass &= passes(entry);
  }
  return all_pass ? 0 : 1;
}

}  // namespace poem::bench

int main(int argc, char** argv) {
  try {
    return poem::bench::run(argc > 1 ? argv[1] : "");
  } catch (const std::exception& error) {
    fmt::print(stderr, "poem_bench: {}\n", error.what());
    return 1;
  }
}
