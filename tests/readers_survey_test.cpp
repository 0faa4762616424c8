#include "readers/survey.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "encode_images.h"
#include "expect_error.h"
#include "log.h"
#include "temporary_folder.h"

namespace poem {
namespace {

std::string png(int64_t height, int64_t width, uint64_t seed) {
  return encode_png(random_bytes({height, width, 3}, seed));
}

TEST(Survey, TellsSizesClassesAndWhatCannotBeRead) {
  const TemporaryFolder folder;
  folder.put("cat/1.png", png(8, 6, 1));
  folder.put("cat/2.png", "no image");
  folder.put("dog/1.png", png(8, 6, 2));
  folder.put("dog/2.png", png(20, 30, 3));
  folder.put("dog/3.png", png(8, 6, 1));
  const Log log;
  const Survey found = survey("mine", folder.path());
  EXPECT_EQ(log.text(), "");
  EXPECT_EQ(found.count(), 4);
  const std::map<std::array<int64_t, 3>, int64_t> sizes = {{{3, 8, 6}, 3}, {{3, 20, 30}, 1}};
  EXPECT_EQ(found.sizes, sizes);
  EXPECT_EQ(found.title(2), "dog/2.png");
  EXPECT_EQ(found.class_name(0), "cat");
  EXPECT_EQ(found.class_name(2), "dog");
  ASSERT_EQ(found.unreadable.size(), 1u);
  EXPECT_EQ(found.unreadable[0].where(), folder / "cat/2.png");
  EXPECT_TRUE(same_pixels(found.marks[0], found.marks[3]));
  const auto picked = pick_images(found, {2, 3}, 8);
  ASSERT_EQ(picked.size(), 2u);
  const at::Tensor third = random_bytes({8, 6, 3}, 1).permute({2, 0, 1});
  EXPECT_EQ(picked.at(2).sizes(), at::IntArrayRef({3, 8, 8}));
  EXPECT_TRUE(pick_images(found, {0}, 6).at(0).equal(third.narrow(1, 1, 6)));  // the centre square
}

TEST(Survey, StartsFromAFolder) {
  const TemporaryFolder folder;
  folder.put("photos/1.png", png(8, 8, 1));
  EXPECT_EQ(survey("a", "photos", folder.path()).count(), 1);
}

TEST(Survey, DrawsWorldsButNoPoints) {
  const Survey drawn = survey("a", "world:digits:30:2");
  EXPECT_EQ(drawn.count(), 30);
  EXPECT_EQ(drawn.drawn_of, 0);
  expect_error([] { survey("c", "world2d:test"); }, {"world2d:test", "points"});
}

}  // namespace
}  // namespace poem
