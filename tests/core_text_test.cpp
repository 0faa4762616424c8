#include "core/text.h"

#include <gtest/gtest.h>

#include "core/progress.h"
#include "core/registry.h"
#include "expect_error.h"

namespace poem {
namespace {

TEST(Nearest, CountsInsertionsDeletionsAndReplacements) {
  // Edit distances to "kitten": sitting 3, kitchen 2, mitten 1.
  EXPECT_EQ(nearest("kitten", {"sitting", "kitchen", "mitten"}), "mitten");
  EXPECT_EQ(nearest("kitten", {"sitting", "kitchen"}), "kitchen");
  EXPECT_EQ(nearest("kitten", {"sitting", "xxxx"}), "sitting");  // 3 against 6
  EXPECT_EQ(nearest("abc", {"ab", "xbcd"}), "ab");               // a deletion, 1 against 2
  EXPECT_EQ(nearest("abc", {"cba", "zabc"}), "zabc");            // an insertion, 1 against 2
  EXPECT_EQ(nearest("", {"long", "a"}), "a");
}

TEST(Nearest, TheFirstOfEqualsAndNothingOfNone) {
  EXPECT_EQ(nearest("b", {"a", "c"}), "a");
  EXPECT_EQ(nearest("same", {"sane", "same"}), "same");
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(Listed, ReadsAsASentence) {
  EXPECT_EQ(listed({}), "");
  EXPECT_EQ(listed({"a"}), "a");
  EXPECT_EQ(listed({"a", "b"}), "a and b");
  EXPECT_EQ(listed({"a", "b", "c"}), "a, b and c");
}

TEST(Registry, FindsByNameAndListsWhatItKnows) {
  const Registry<int> numbers("numbers.name", {{"one", 1}, {"two", 2}});
  EXPECT_EQ(numbers.find("two"), 2);
  EXPECT_EQ(numbers.names(), (std::vector<std::string>{"one", "two"}));
  expect_error([&] { numbers.find("tow"); }, {"numbers.name", "'tow'", "nearest is 'two'", "one and two"});
  expect_error([&] { numbers.find(""); }, {"numbers.name", "''"});
}

TEST(DurationText, ChoosesItsUnits) {
  EXPECT_EQ(duration_text(0), "0.0 s");
  EXPECT_EQ(duration_text(4.24), "4.2 s");
  EXPECT_EQ(duration_text(59.9), "59.9 s");
  EXPECT_EQ(duration_text(59.97), "1 min 00 s");  // never "60.0 s"
  EXPECT_EQ(duration_text(60), "1 min 00 s");
  EXPECT_EQ(duration_text(200), "3 min 20 s");
  EXPECT_EQ(duration_text(3599.4), "59 min 59 s");
  EXPECT_EQ(duration_text(3599.6), "1 h 00 min");
  EXPECT_EQ(duration_text(7500), "2 h 05 min");
  EXPECT_EQ(duration_text(7199.6), "2 h 00 min");
  EXPECT_EQ(duration_text(100 * 3600), "100 h 00 min");
}

}  // namespace
}  // namespace poem
