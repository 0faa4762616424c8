// Progress bars with rate and time left. A program switches them on; they are drawn on a terminal only.
//
//   show_progress(true);                           // once, in main() (poem/runtime.h)
//   Job job("epoch", 2, 12);                       // two of twelve are complete
//   Progress bar("training", batches, "batches");
//   for (…) bar.advance(1, [&] { return "loss 0.41"; });
//
//   epoch 3/12  training  ━━━━━━━━━━──────────────   42 %  31 batches/s  3.1 s left, run 1 min 02 s
//   loss 0.41
//
// The cursor rests at the beginning of the view, so kWipe clears all of it, even if the terminal has become
// narrower and has broken its lines.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace poem {

// The bar is shown as long as the object lives.
class Progress {
 public:
  Progress(std::string what, int64_t total, std::string unit = "");
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `figures` returns what to show beside the bar, two spaces apart, the most important first. It is called
  // only when the bar is drawn: at most four times per second.
  void advance(int64_t steps, const std::function<std::string()>& figures = {});

 private:
  using Clock = std::chrono::steady_clock;
  void draw(const std::string& figures) const;
  std::string what_, unit_;
  int64_t total_, done_ = 0;
  bool visible_;
  Clock::time_point start_, drawn_;
};

// A job of many steps; there is one job at a time. While it lives, every bar shows the step that it belongs
// to, the time left for the step and for the job, and the job's own figures.
class Job {
 public:
  Job(std::string step, int64_t done, int64_t total);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  void set_done(int64_t steps);
  void set_figures(std::string text) { figures_ = std::move(text); }

 private:
  friend class Progress;
  using Clock = std::chrono::steady_clock;
  std::string step_, figures_;
  int64_t done_, total_;
  Clock::time_point start_;   // of the current step
  double last_seconds_ = -1;  // how long the last step took; -1: there was none
};

// The seconds left for a step, and for a job with `later` more steps, if the step has run for `ran` seconds
// and the bar on view needs `bar` more. A step is assumed to take as long as the `last` one (-1: there was
// none), or `ran` + `bar` if that is longer.
struct TimeLeft {
  double step, job;
};
TimeLeft time_left(double last, double ran, double bar, int64_t later);

// "3 days 7 h", "2 h 05 min", "3 min 20 s", "4.2 s".
std::string duration_text(double seconds);

}  // namespace poem
