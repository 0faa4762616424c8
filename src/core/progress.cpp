#include "core/progress.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace poem {

void set_up_logging(bool quiet) {
  auto logger = std::make_shared<spdlog::logger>("poem", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%v");
  logger->set_level(quiet ? spdlog::level::warn : spdlog::level::info);
  spdlog::set_default_logger(logger);
}

std::string duration_text(double seconds) {
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

Progress::Progress(std::string what, int64_t total, std::string unit)
    : what_(std::move(what)),
      unit_(std::move(unit)),
      total_(std::max<int64_t>(total, 1)),
      visible_(isatty(STDERR_FILENO) != 0 && spdlog::should_log(spdlog::level::info)),
      start_(Clock::now()),
      drawn_(start_) {}

Progress::~Progress() {
  if (visible_) fmt::print(stderr, "\r\033[K");
}

void Progress::advance(int64_t steps, const std::string& note) {
  done_ += steps;
  const auto now = Clock::now();
  if (!visible_ || now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  draw(note);
}

void Progress::draw(const std::string& note) {
  constexpr int kWidth = 24;
  const double seconds = std::chrono::duration<double>(drawn_ - start_).count();
  const double share = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
  const double rate = static_cast<double>(done_) / std::max(seconds, 1e-9);
  const double left = share > 0 ? seconds * (1 - share) / share : 0;
  const std::string bar(static_cast<size_t>(share * kWidth), '=');
  fmt::print(stderr, "\r\033[K{} [{:<{}}] {:3.0f} %  {:.0f} {}/s  {} left  {}", what_, bar, kWidth,
             100 * share, rate, unit_, duration_text(left), note);
  std::fflush(stderr);
}

}  // namespace poem
