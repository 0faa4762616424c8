#include "poem/error.h"

#include <gtest/gtest.h>

namespace poem {
namespace {

TEST(Error, KeepsItsPartsAndIsOneLine) {
  const Error error("a\nb.npy", "has 12 bytes", "copy it again");
  EXPECT_STREQ(error.what(), "a b.npy: has 12 bytes (copy it again)");
  EXPECT_EQ(error.where(), "a\nb.npy");
  EXPECT_EQ(error.problem(), "has 12 bytes");
  EXPECT_EQ(error.remedy(), "copy it again");
  EXPECT_STREQ(Error("a", "is \x1b").what(), "a: is ?");
  EXPECT_EQ(Error("a", "is").remedy(), "");
}

TEST(Error, CanBeInsideOfSomething) {
  const Error error = Error("data.train", "is missing", "name it").within("my.yaml");
  EXPECT_STREQ(error.what(), "my.yaml: data.train: is missing (name it)");
  EXPECT_EQ(error.where(), "my.yaml");
  EXPECT_EQ(error.remedy(), "name it");
}

}  // namespace
}  // namespace poem
