#include "core/text.h"

#include <gtest/gtest.h>

#include "core/progress.h"
#include "core/registry.h"
#include "expect_error.h"

namespace poem {
namespace {

using Names = std::vector<std::string>;

TEST(ShellQuoted, LeavesPlainArgumentsAndQuotesTheRest) {
  for (const char* plain : {"runs/a-1_b.2", "a=b:c,d", "x@y+5%"}) EXPECT_EQ(shell_quoted(plain), plain);
  EXPECT_EQ(shell_quoted("my run"), "'my run'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted("$(rm x);*?~#\"\\"), "'$(rm x);*?~#\"\\'");
  EXPECT_EQ(shell_quoted("größe"), "'größe'");
  EXPECT_EQ(shell_quoted(""), "''");
}

TEST(Nearest, CountsInsertionsDeletionsReplacementsAndSwaps) {
  // Edit distances to "kitten": sitting 3, kitchen 2, mitten 1.
  EXPECT_EQ(nearest("kitten", {"sitting", "kitchen", "mitten"}), Names{"mitten"});
  EXPECT_EQ(nearest("kitten", {"sitting", "kitchen"}), Names{"kitchen"});
  EXPECT_EQ(nearest("kitten", {"sitting", "xxxx"}), Names{"sitting"});  // 3 against 6
  EXPECT_EQ(nearest("abcd", {"abc", "xbcde"}), Names{"abc"});           // a deletion, 1 against 2
  EXPECT_EQ(nearest("abcd", {"dbca", "zabcd"}), Names{"zabcd"});        // an insertion, 1 against 2
  EXPECT_EQ(nearest("abcd", {"bacd", "badc"}), Names{"bacd"});          // a swap, 1 against 2
}

TEST(Nearest, MayNameTheLastComponentAlone) {
  const Names keys = {"score", "train.epochs", "train.batch", "network.width"};
  EXPECT_EQ(nearest("epochs", keys), Names{"train.epochs"});
  EXPECT_EQ(nearest("epoch", keys), Names{"train.epochs"});
  EXPECT_EQ(nearest("trian.epochs", keys), Names{"train.epochs"});
  EXPECT_EQ(nearest("train.batch_size", keys), Names{"train.batch"});
}

TEST(Nearest, IsNothingWhereMoreThanHalfDiffers) {
  const Names keys = {"score", "train.epochs", "train.batch", "network.width"};
  EXPECT_EQ(nearest("dropout", keys), Names{});
  EXPECT_FALSE(nearest("dropout", keys, /*far=*/true).empty());
  EXPECT_EQ(nearest("train.warp", keys), Names{}) << "a shared section makes nobody near";
  EXPECT_EQ(nearest("ab", {"ax"}), Names{"ax"});
  EXPECT_EQ(nearest("ab", {"xyb"}), Names{});
  EXPECT_EQ(nearest("", {"long", "a"}), Names{});
  EXPECT_EQ(nearest("x", {}), Names{});
}

TEST(Nearest, IsAllThatAreEquallyNear) {
  EXPECT_EQ(nearest("bb", {"ab", "xx", "cb"}), (Names{"ab", "cb"}));
  EXPECT_EQ(nearest("same", {"sane", "same"}), Names{"same"});
  EXPECT_EQ(suggestion("epochs", {"queue.epochs", "score", "train.epochs"}),
            "nearest are 'queue.epochs' and 'train.epochs'; ");
  EXPECT_EQ(suggestion("sore", {"queue.epochs", "score", "train.epochs"}), "nearest is 'score'; ");
  EXPECT_EQ(suggestion("dropout", {"queue.epochs", "score"}), "");
  EXPECT_EQ(suggestion("a0", {"a1", "a2", "a3", "a4", "a5"}), "nearest are 'a1', 'a2' and 'a3'; ");
}

TEST(Listed, ReadsAsASentence) {
  EXPECT_EQ(listed({}), "");
  EXPECT_EQ(listed({"a"}), "a");
  EXPECT_EQ(listed({"a", "b"}), "a and b");
  EXPECT_EQ(listed({"a", "b", "c"}), "a, b and c");
}

TEST(ParseNumber, TakesTheWholeTextOrNothing) {
  EXPECT_EQ(parse_number<int64_t>("-12"), -12);
  EXPECT_EQ(parse_number<uint64_t>("18446744073709551615"), 18446744073709551615u);
  EXPECT_EQ(parse_number<double>("1e-3"), 1e-3);
  for (const char* text : {"", " 1", "1 ", "+1", "1.5", "0x1", "x", "9223372036854775808"}) {
    EXPECT_FALSE(parse_number<int64_t>(text)) << text;
  }
  EXPECT_FALSE(parse_number<uint64_t>("-1"));
}

TEST(Replaced, ReplacesEveryOneAndNotWhatItWrote) {
  EXPECT_EQ(replaced("a.b..", ".", ".."), "a..b....");
  EXPECT_EQ(replaced("aaa", "aa", "a"), "aa");
  EXPECT_EQ(replaced("", "a", "b"), "");
}

TEST(Registry, FindsByNameAndListsWhatItKnows) {
  const Registry<int> numbers("numbers.name", {{"one", 1}, {"two", 2}});
  EXPECT_EQ(numbers.find("two"), 2);
  EXPECT_EQ(numbers.names(), (std::vector<std::string>{"one", "two"}));
  expect_error([&] { numbers.find("tow"); }, {"numbers.name", "'tow'", "nearest is 'two'", "one and two"});
  expect_error([&] { numbers.find(""); }, {"numbers.name", "''", "(known: one and two)"});
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
  EXPECT_EQ(duration_text(47 * 3600), "47 h 00 min");
  EXPECT_EQ(duration_text(100 * 3600), "4 days 4 h");
}

}  // namespace
}  // namespace poem
