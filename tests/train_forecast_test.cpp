#include "train/forecast.h"

#include <gtest/gtest.h>

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
  for (const char* words : {"about 2 h 05 min", "until 2", "a step takes 1 s", "GPU", "configs/demo.yaml"})
    EXPECT_NE(text.find(words), std::string::npos) << text;
  EXPECT_NE(forecast_text(10 * 86400, "").find("10 days 0 h"), std::string::npos);
}

}  // namespace
}  // namespace poem
