// Tells once that a training will take hours, from the time of its first steps: nothing is done for it that
// training would not do anyway.
//
//   Forecast forecast(/*wanted=*/true);
//   forecast.begin_steps();
//   for (…) { step(); forecast.add_step(work_left); }   // the log then says how long, and until when
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace poem {

struct WorkLeft {
  double images = 0;           // whose features are taken: pools, and what is queued
  double steps = 0;            // of training
  double images_per_step = 0;  // forward; backward takes twice as long
};

// Seconds of the work at so many for an image's features and, where it is known, for a step.
double seconds_left(const WorkLeft& work, double per_image, std::optional<double> per_step);

// What the log says of a training that has so many seconds left, measured as `measured` tells; empty where it
// ends within the hour.
std::string forecast_text(double seconds, const std::string& measured);

class Forecast {
 public:
  explicit Forecast(bool wanted) : wanted_(wanted) {}

  // After each batch whose features were taken before the first step; after each step. Both tell in the log
  // as soon as enough were timed.
  void add_images(int64_t count, const WorkLeft& left);
  void begin_steps();  // before the steps of an epoch
  void add_step(const WorkLeft& left);

 private:
  using Clock = std::chrono::steady_clock;
  // Counts from the second call on, since the first one sets up kernels and memory. The mean of what was
  // counted, once that is enough to go by.
  std::optional<double> mean_after(double count);
  void tell(double seconds, const std::string& measured);

  bool wanted_;
  std::optional<Clock::time_point> start_;
  double counted_ = 0;
  int64_t calls_ = 0;
  std::optional<double> per_image_;
};

}  // namespace poem
