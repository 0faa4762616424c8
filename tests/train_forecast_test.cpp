#include "train/forecast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "log.h"

namespace poem {
namespace {

TEST(Forecast, AddsImagesAndSteps) {
  const WorkLeft work{1000, 50, 128};
  EXPECT_DOUBLE_EQ(seconds_left(work, 0.1, 2.0), 1000 * 0.1 + 50 * 2.0);
  // Before the first step: one pass forward and one backward, which takes as long as two.
  EXPECT_DOUBLE_EQ(seconds_left(work, 0.1, std::nullopt), 1000 * 0.1 + 50 * 128 * 3 * 0.1);
}

TEST(Forecast, TellsOfHoursAlone) {
  EXPECT_EQ(forecast_text(3599, "a step takes 1 s"), "");
  const std::string text = forecast_text(7500, "a step takes 1 s");
  for (const char* words : {"about 2 h 05 min", "until 2", "(a step takes 1 s)", "fewer epochs",
                            "smaller network or pool", "GPU"})
    EXPECT_NE(text.find(words), std::string::npos) << text;
  EXPECT_NE(forecast_text(10 * 86400, "").find("10 days 0 h"), std::string::npos);
}

// Images are timed before the first step, then steps: either alone would tell of the hours.
TEST(Forecast, IsToldOnce) {
  constexpr WorkLeft kHours{1e9, 1e6, 128};
  constexpr auto kWait = std::chrono::milliseconds(180);
  Forecast forecast(/*wanted=*/true);
  const Log log;
  for (int i = 0; i < 4; ++i) {
    forecast.add_images(10, kHours);
    std::this_thread::sleep_for(kWait);
  }
  forecast.begin_steps();
  for (int i = 0; i < 4; ++i) {
    forecast.add_step(kHours);
    std::this_thread::sleep_for(kWait);
  }
  const std::string text = log.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

}  // namespace
}  // namespace poem
