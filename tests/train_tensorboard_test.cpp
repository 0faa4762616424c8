#include "train/tensorboard.h"

#include <gtest/gtest.h>

#include <numeric>

// tests/cli/tensorboard_test.sh reads whole files with a reader of its own.
namespace poem {
namespace {

// RFC 3720, B.4
TEST(Crc32c, KnowsThePublishedVectors) {
  std::string rising(32, '\0');
  std::iota(rising.begin(), rising.end(), '\0');
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c(rising), 0x46dd794eu);
}

// The bytes that TensorFlow's own writer begins a file with, at time 0.
TEST(Events, BeginWithTheVersion) {
  const std::string bytes = encode_events("", 0);
  ASSERT_EQ(bytes.size(), 8u + 4 + 24 + 4);
  EXPECT_EQ(bytes.substr(0, 12), std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12));
  EXPECT_EQ(bytes.substr(12, 24), std::string("\x09\0\0\0\0\0\0\0\0\x1a\x0d", 11) + "brain.Event:2");
}

TEST(Events, GrowOnlyAtTheEnd) {
  const std::string figures = R"("epoch": 1, "loss": 0.5, "seconds": {"mine": 1, "train": 2.5})",
                    one = "{" + figures + "}\n",
                    evaluated = "{" + figures + R"(, "results": {"mean": {"fpr95": 0.1}}})" + "\n",
                    two = R"({"epoch": 2, "loss": 0.25})";
  const auto starts_with = [](const std::string& text, const std::string& start) {
    return text.size() > start.size() && text.compare(0, start.size(), start) == 0;
  };
  const std::string first = encode_events(one, 7), second = encode_events(evaluated, 7);
  EXPECT_TRUE(starts_with(first, encode_events("", 7)));
  EXPECT_TRUE(starts_with(second, first));
  EXPECT_TRUE(starts_with(encode_events(evaluated + two, 7), second));
}

}  // namespace
}  // namespace poem
