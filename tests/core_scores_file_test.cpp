#include "core/scores_file.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/file.h"
#include "core/named_path.h"
#include "core/npy.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace poem {
namespace {

class ScoresFile : public testing::Test {
 protected:
  std::string written(const std::string& name, const std::string& content) {
    write_file(folder_ / name, content);
    return folder_ / name;
  }
  TemporaryFolder folder_;
};

using Scores = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST_F(ScoresFile, TextIsNumbersBetweenWhiteSpace) {
  EXPECT_EQ(read_scores(written("a.txt", "1 2.5\t-3e2\r\n\n  +4  \n-inf")), (Scores{1, 2.5, -300, 4, -kInf}));
  EXPECT_EQ(read_scores(written("plain", "7")), Scores{7});
}

TEST_F(ScoresFile, CsvIsItsLastColumn) {
  EXPECT_EQ(read_scores(written("a.csv", "1\n2\n3\n")), (Scores{1, 2, 3}));
  EXPECT_EQ(read_scores(written("b.csv", "image,score\r\na.png,0.5\r\nb.png, -1 \r\n")), (Scores{0.5, -1}));
  EXPECT_EQ(read_scores(written("c.csv", "score\n1;2\n3\t4")), (Scores{2, 4}));
}

TEST_F(ScoresFile, QuotedFieldsMayContainLineBreaks) {
  EXPECT_EQ(read_scores(written("a.csv", "image,score\n\"a,\n7\",0.5\n\"say \"\"8\"\"\n\",\"9\"\r\n")),
            (Scores{0.5, 9}));
  EXPECT_EQ(read_scores(written("b.csv", "5\" screen,1\n7\" screen,2\n")), (Scores{1, 2}));
  expect_error([&] { read_scores(written("c.csv", "image,score\n\"a\n\nb\",x\n")); },
               {"c.csv", "line 2", "'x'"});
  expect_error([&] { read_scores(written("d.csv", "score\n1\n\"a,2\n3\n")); },
               {"d.csv", "line 3", "quote is not closed"});
}

TEST_F(ScoresFile, OfPoemsOwnTableTheRowsOfOneSet) {
  const std::string path = written("scores.csv",
                                   "set,name,class,predicted,verdict,energy\n"
                                   "id,cat/1.png,cat,cat,known,-3.25\n"
                                   "id,\"cat/a,\nb.png\",cat,dog,unknown,-4\n"
                                   "\"far, away\",17,,dog,unknown,-9.5\n");
  EXPECT_EQ(read_scores(path, "id"), (Scores{-3.25, -4}));
  EXPECT_EQ(read_scores(path, "far, away"), Scores{-9.5});
  expect_error([&] { read_scores(path, "digits"); },
               {"scores.csv", "no set 'digits'", "its sets are id and far, away"});
  const std::string several = written("s.csv", "set,name,class,predicted,verdict,knn,vim\nid,1,,,,2,3\n");
  expect_error([&] { read_scores(several, "id"); }, {"s.csv", "2 scores: knn and vim", "one score only"});
  EXPECT_EQ(read_scores(written("other.csv", "set,score\nx,2\n"), "id"), Scores{2});
}

TEST_F(ScoresFile, EveryFormatKeepsFloat64) {
  const Scores scores{1 - 1e-12, 1 - 1e-9, 1e300, -1e-300, 0.1};
  std::string text;
  for (const double x : scores) text += fmt::format("{}\n", x);
  EXPECT_EQ(read_scores(written("a.txt", text)), scores);
  EXPECT_EQ(read_scores(written("a.csv", text)), scores);
  write_npy(folder_ / "a.npy", at::tensor(scores, at::kDouble));
  EXPECT_EQ(read_scores(folder_ / "a.npy"), scores);
  write_npy(folder_ / "a.npy", at::tensor({(1l << 53) - 1, -(1l << 53)}));
  EXPECT_EQ(read_scores(folder_ / "a.npy"), (Scores{9007199254740991., -9007199254740992.}));
}

TEST_F(ScoresFile, WhatFloat64CannotHoldIsAnError) {
  expect_error([&] { read_scores(written("a.txt", "1\n2 1e400\n")); },
               {"a.txt", "line 2", "1e400", "range of float64", "rescale"});
  expect_error([&] { read_scores(written("a.csv", "score\n-1e999\n")); }, {"a.csv", "line 2", "-1e999"});
  expect_error([&] { read_scores(written("a.csv", "1e999\n")); }, {"a.csv", "line 1", "1e999"});
  expect_error([&] { read_scores(written("a.txt", "1e-400")); }, {"a.txt", "1e-400"});
  EXPECT_EQ(read_scores(written("a.txt", "0 5e-324 0e-999")), (Scores{0, 5e-324, 0}));
  write_npy(folder_ / "a.npy", at::tensor({1l, (1l << 53) + 1}));
  expect_error([&] { read_scores(folder_ / "a.npy"); }, {"a.npy", "index 1", "9007199254740993", "2^53"});
}

TEST_F(ScoresFile, NpyOfAnyType) {
  const std::string path = folder_ / "a.npy";
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kInt, at::kLong, at::kByte}) {
    write_npy(path, at::arange(6).reshape({6, 1}).to(type));
    EXPECT_EQ(read_scores(path), (Scores{0, 1, 2, 3, 4, 5}));
  }
  write_npy(path, at::ones({}));
  expect_error([&] { read_scores(path); }, {"a.npy", "shape ()", "one score per input"});
}

TEST_F(ScoresFile, NpzOfOneArrayIsThatArray) {
  const std::string path = folder_ / "a.npz";
  const at::Tensor scores = at::arange(3);
  write_npz(path, {{"scores", scores}});
  EXPECT_EQ(read_scores(path), (Scores{0, 1, 2}));
  write_npz(path, {{"id", scores}, {"ood", scores}});
  expect_error([&] { read_scores(path); }, {"a.npz", "2 arrays: id and ood", ".npy"});
  write_npz(path, {{"grid", scores.view({1, 3})}});
  expect_error([&] { read_scores(path); }, {"a.npz", "(1×3)"});
}

TEST_F(ScoresFile, WhatIsNoNumberIsNamedWithFileLineAndValue) {
  expect_error([&] { read_scores(written("a.txt", "1\n2 x7 3\n")); }, {"a.txt", "line 2", "'x7'"});
  expect_error([&] { read_scores(written("b.txt", "1,2\n")); }, {"b.txt", "line 1", "'1,2'"});
  expect_error([&] { read_scores(written("a.csv", "score\n1\nhigh\n")); }, {"a.csv", "line 3", "'high'"});
  expect_error([&] { read_scores(written("b.csv", "a,b\n1,\n")); }, {"b.csv", "line 2", "''"});
}

TEST_F(ScoresFile, NanIsNamed) {
  expect_error([&] { read_scores(written("a.txt", "1\nnan\n")); }, {"a.txt", "line 2", "NaN"});
  expect_error([&] { read_scores(written("a.csv", "nan\n1\n")); }, {"a.csv", "line 1", "NaN"});
  write_npy(folder_ / "a.npy", at::tensor({1.0, 2.0, std::nan("")}));
  expect_error([&] { read_scores(folder_ / "a.npy"); }, {"a.npy", "index 2", "NaN"});
}

TEST_F(ScoresFile, NothingInItIsAnError) {
  expect_error([&] { read_scores(written("a.txt", "")); }, {"a.txt", "no scores"});
  expect_error([&] { read_scores(written("b.txt", " \n\n")); }, {"b.txt", "no scores"});
  expect_error([&] { read_scores(written("a.csv", "score\n")); }, {"a.csv", "no scores"});
  write_npy(folder_ / "a.npy", at::empty({0}, at::kFloat));
  expect_error([&] { read_scores(folder_ / "a.npy"); }, {"a.npy", "no scores"});
  expect_error([&] { read_scores(folder_ / "missing.txt"); }, {"missing.txt", "cannot open"});
}

TEST(NamedPaths, SplitAtTheFirstEqualsSign) {
  const auto all = named_paths("--ood", {"b=x=y.npy", "a=z"});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "b");
  EXPECT_EQ(all[0].path, "x=y.npy");
  EXPECT_EQ(all[1].name, "a");
}

TEST(NamedPaths, AMissingPartAndARepeatedNameAreErrors) {
  for (const char* bad : {"file.npy", "=file.npy", "name=", "="}) {
    expect_error([&] { named_paths("--ood", {bad}); }, {"--ood", bad, "NAME=PATH"});
  }
  expect_error([] { named_paths("--ood", {"a=1", "b=2", "a=3"}); }, {"--ood", "'a'", "twice"});
}

}  // namespace
}  // namespace poem
