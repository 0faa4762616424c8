#include "study/epochs_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <vector>

#include "core/terminal.h"

namespace poem {
namespace {

int64_t lines_of(const std::string& path) {
  std::ifstream file(path);
  return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
}

}  // namespace

void EpochsView::follow(size_t id, const std::string& name, const std::string& metrics, int64_t epochs) {
  trainings_[id] = {name, metrics, epochs, lines_of(metrics)};
  bar_.reset();
}

void EpochsView::forget(size_t id) {
  trainings_.erase(id);
  bar_.reset();
}

void EpochsView::show() {
  constexpr auto kPause = std::chrono::minutes(1);
  int64_t left = 0, finished = 0;
  for (auto& [id, training] : trainings_) {
    const int64_t done = lines_of(training.metrics);
    finished += done - training.done;
    left += training.epochs - done;
    training.done = done;
  }
  if (!bar_) {
    bar_.emplace("training", left, "epochs");
    finished = 0;
  }
  bar_->advance(finished, [this] { return text(); });
  if (terminal(STDERR_FILENO).live || Clock::now() - logged_ < kPause) return;
  logged_ = Clock::now();
  spdlog::info("training {}", text());
}

std::string EpochsView::text() const {
  std::vector<std::string> parts;
  for (const auto& [id, training] : trainings_) {
    parts.push_back(fmt::format("{}: epoch {} of {}", training.name,
                                std::min(training.done + 1, training.epochs), training.epochs));
  }
  return fmt::format("{}", fmt::join(parts, "  "));
}

}  // namespace poem
