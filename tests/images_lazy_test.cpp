#include "images/lazy_images.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <csignal>

#include "core/interrupts.h"
#include "release_interrupts.h"

namespace poem {
namespace {

constexpr int64_t kImages = 1300;  // more than two blocks

struct Counted {
  int64_t made = 0;
  LazyImages images{"counted", {kImages, 1, 2, 2}, {}, [this](const std::vector<int64_t>& some, int64_t*) {
                      made += static_cast<int64_t>(some.size());
                      return at::full({static_cast<int64_t>(some.size()), 1, 2, 2}, 7, at::kByte);
                    }};
};

std::vector<Crop> crops_of(int64_t count) {
  std::vector<Crop> crops;
  for (int64_t i = 0; i < count; ++i) crops.push_back({i, 0});
  return crops;
}

TEST(LazyImages, AreInterruptedOnlyWhereTheCallerWantsIt) {
  const std::vector<Crop> crops = crops_of(kImages);
  catch_interrupts();
  std::raise(SIGINT);
  Counted lazy;
  EXPECT_THROW(lazy.images.make(crops.data(), kImages), Interrupted);
  EXPECT_EQ(lazy.made, 0);
  lazy.images.make(crops.data(), kImages, [] {});
  EXPECT_EQ(lazy.made, kImages);
  release_interrupts();
}

// A call may need more than the most that is kept. What it made stays until others are needed.
TEST(LazyImages, AreNotForgottenWhereNoneIsMissing) {
  Counted lazy;
  lazy.images.keep_at_most(4 * 100);
  const std::vector<Crop> crops = crops_of(300);
  for (int i = 0; i < 2; ++i) lazy.images.make(crops.data(), 300);
  EXPECT_EQ(lazy.made, 300);
  const Crop other{300, 0};
  lazy.images.make(&other, 1);
  EXPECT_EQ(lazy.images.made(), 1) << "the others were forgotten";
}

}  // namespace
}  // namespace poem
