// Progress on a terminal: bars with rate and time left; nothing elsewhere, where the epochs' log lines do.
//
//   Job job("epoch", 2, 12);                       // two are complete
//   Progress bar("training", batches, "batches");
//   for (…) bar.advance(1, [&] { return "loss 0.41"; });
//
//   epoch 3/12  training  ━━━━━━━━━━──────────────   42 %  31 batches/s  3.1 s left, run 1 min 02 s
//   loss 0.41
//
// The cursor rests at the beginning of the view: whoever wipes from there (kWipe) clears all of it, also
// after the terminal was made narrower and its lines were broken.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace poem {

// A bar, for as long as it lives.
class Progress {
 public:
  Progress(std::string what, int64_t total, std::string unit = "");
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `figures`, two spaces apart, the most important first, are asked for only when the bar is drawn: at most
  // four times a second.
  void advance(int64_t steps, const std::function<std::string()>& figures = {});

 private:
  using Clock = std::chrono::steady_clock;
  void draw(const std::string& figures) const;
  std::string what_, unit_;
  int64_t total_, done_ = 0;
  bool visible_;
  Clock::time_point start_, drawn_;
};

// A job of many steps, one job at a time: while it lives, every bar tells the step it belongs to, the time
// left for the step and for the job, and the job's own figures.
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
  double last_seconds_ = -1;  // what the last step took; none yet
};

// Seconds that a step and a job of `later` more steps have left, when the step has run for `ran` and the bar
// on view needs `bar` more. A step takes as long as the `last` one (-1: there was none) or, if that is more,
// as these two tell.
struct TimeLeft {
  double step, job;
};
TimeLeft time_left(double last, double ran, double bar, int64_t later);

// Logging through spdlog: plain lines on stderr; warnings only if quiet (which hides progress bars as well).
void set_up_logging(bool quiet);

// "3 days 7 h", "2 h 05 min", "3 min 20 s", "4.2 s".
std::string duration_text(double seconds);

}  // namespace poem
