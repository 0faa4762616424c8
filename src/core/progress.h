// A progress bar with rate and time left on a terminal; nothing elsewhere, where the epochs' log lines do.
//
//   Progress bar("epoch 3/12", batches);
//   for (…) bar.advance(1, "loss 0.41");
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace poem {

class Progress {
 public:
  Progress(std::string what, int64_t total, std::string unit = "");
  ~Progress();  // wipes the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(int64_t steps, const std::string& note = "");

 private:
  using Clock = std::chrono::steady_clock;
  void draw(const std::string& note);
  std::string what_, unit_;
  int64_t total_, done_ = 0;
  bool visible_;
  Clock::time_point start_, drawn_;
};

// Logging through spdlog: plain lines on stderr; warnings only if quiet (which hides progress bars as well).
void set_up_logging(bool quiet);

// "2 h 05 min", "3 min 20 s", "4.2 s".
std::string duration_text(double seconds);

}  // namespace poem
