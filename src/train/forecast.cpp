#include "train/forecast.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <ctime>

#include "core/progress.h"

namespace poem {
namespace {

constexpr double kBackward = 2;  // as long as a pass forward

std::string local_time(std::time_t time) {
  std::tm parts{};
  ::localtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  return text;
}

}  // namespace

double seconds_left(const WorkLeft& work, double per_image, std::optional<double> per_step) {
  const double step = per_step.value_or((1 + kBackward) * work.images_per_step * per_image);
  return work.images * per_image + work.steps * step;
}

std::string forecast_text(double seconds, const std::string& measured) {
  constexpr double kLong = 3600;
  if (seconds < kLong) return "";
  const auto end = std::time(nullptr) + static_cast<std::time_t>(seconds);
  return fmt::format(
      "this training will take about {} on this CPU, until {} ({}); fewer epochs, a smaller network or pool, "
      "or a GPU make it shorter",
      duration_text(seconds), local_time(end), measured);
}

void Forecast::add_images(int64_t count, const WorkLeft& left) {
  if (!wanted_ || per_image_) return;
  per_image_ = mean_after(static_cast<double>(count));
  if (per_image_) {
    tell(seconds_left(left, *per_image_, std::nullopt),
         fmt::format("{:.3g} images/s so far", 1 / *per_image_));
  }
}

void Forecast::begin_steps() {
  start_.reset();
  counted_ = 0;
  calls_ = 0;
}

void Forecast::add_step(const WorkLeft& left) {
  if (!wanted_) return;
  const std::optional<double> step = mean_after(1);
  if (!step) return;
  wanted_ = false;
  const double guess = left.images_per_step > 0 ? *step / ((1 + kBackward) * left.images_per_step) : 0;
  tell(seconds_left(left, per_image_.value_or(guess), step), fmt::format("a step takes {:.3g} s", *step));
}

std::optional<double> Forecast::mean_after(double count) {
  constexpr int64_t kCalls = 3;
  constexpr double kSeconds = 0.5;
  const auto now = Clock::now();
  if (!start_) {
    start_ = now;
    return std::nullopt;
  }
  counted_ += count;
  const double seconds = std::chrono::duration<double>(now - *start_).count();
  if (++calls_ < kCalls || seconds < kSeconds) return std::nullopt;
  return seconds / counted_;
}

void Forecast::tell(double seconds, const std::string& measured) {
  const std::string text = forecast_text(seconds, measured);
  if (text.empty()) return;
  spdlog::warn(text);
  wanted_ = false;
}

}  // namespace poem
