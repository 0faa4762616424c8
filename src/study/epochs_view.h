// Shows how far the trainings of a study are. On a terminal it draws a bar over the epochs that are
// left in the trainings that run, so that the time left does not count earlier epochs. Elsewhere it logs one
// line per minute.
//
//   EpochsView view;
//   view.follow(0, "poem-0", "study/runs/poem-0/metrics.jsonl", 100);
//   view.show();     // about once a second
//   view.forget(0);  // it has ended
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/progress.h"

namespace poem {

class EpochsView {
 public:
  // `metrics`: a file with one line per finished epoch; it may not exist yet.
  void follow(size_t id, const std::string& name, const std::string& metrics, int64_t epochs);
  void forget(size_t id);
  void show();

 private:
  using Clock = std::chrono::steady_clock;
  struct Training {
    std::string name, metrics;
    int64_t epochs, done;
  };
  std::string text() const;

  std::map<size_t, Training> trainings_;
  std::optional<Progress> bar_;  // a new one whenever a training begins or ends
  Clock::time_point logged_ = Clock::now();
};

}  // namespace poem
