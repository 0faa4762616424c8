// Benchmarks as ratios: our side and a baseline run in turn in the same process, and the ratio of their
// medians is held against a bar.
//
//   POEM_BENCH(metrics) {
//     compare("all metrics", [&] { ood_metrics(id, ood); }, [&] { std::sort(…); }, 2.0);
//   }
//
// `poem_bench [FILTER]` runs those whose name contains FILTER and fails when one misses its bar.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace poem::bench {

// Times both sides `repeats` times in turn and prints the medians, their ratio and the bar.
void compare(const std::string& what, const std::function<void()>& ours,
             const std::function<void()>& baseline, double at_most, int repeats = 20);

double median(std::vector<double> values);

// Prints two times that were measured elsewhere, their ratio and the bar.
void hold(const std::string& what, double our_seconds, double baseline_seconds, double at_most);

// Times one side once and holds its seconds against a bar: for what takes minutes.
void time_once(const std::string& what, const std::function<void()>& ours, double at_most_seconds);

// Prints a figure that is not a time, and holds it against a bar.
void hold_figure(const std::string& what, double value, const std::string& unit, double at_most);

// Keeps the compiler from dropping a result that nobody reads.
template <typename T>
void keep(const T& value) {
  asm volatile("" : : "r"(&value) : "memory");
}

struct Registration {
  Registration(const char* name, void (*body)());
};

}  // namespace poem::bench

#define POEM_BENCH(name)                                                                       \
  static void poem_bench_##name();                                                             \
  static const ::poem::bench::Registration poem_registration_##name(#name, poem_bench_##name); \
  static void poem_bench_##name()
