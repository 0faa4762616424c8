#include "poem/balance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "expect_error.h"

namespace poem {
namespace {

std::vector<double> ramp(int count, double first) {
  std::vector<double> scores(count);
  for (int i = 0; i < count; ++i) scores[i] = first + static_cast<double>(i);
  return scores;
}

TEST(Balance, TakesAsManyAsTheRatioAllows) {
  struct Case {
    int id, ood;
    const char* ratio;
    int64_t id_count, ood_count;
  };
  for (const Case& c :
       {Case{100, 30, "1:1", 30, 30}, Case{30, 100, "1:1", 30, 30}, Case{100, 30, "5:1", 100, 20},
        Case{100, 30, "3:2", 45, 30}, Case{101, 31, "2:4", 14, 28}, Case{10, 10, "10:10", 10, 10},
        Case{10, 7, "1:7", 1, 7}}) {
    const OodMetrics m = ood_metrics(ramp(c.id, 0), ramp(c.ood, -50), parse_balance(c.ratio, 0));
    EXPECT_EQ(m.id_count, c.id_count) << c.ratio;
    EXPECT_EQ(m.ood_count, c.ood_count) << c.ratio;
  }
}

TEST(Balance, WithoutARatioAllScoresCount) {
  EXPECT_FALSE(parse_balance("", 3));
  const auto id = ramp(50, 0), ood = ramp(20, -10);
  const OodMetrics all = ood_metrics(id, ood), none = ood_metrics(id, ood, parse_balance("", 3));
  EXPECT_EQ(all.auroc, none.auroc);
  EXPECT_EQ(all.aupr_in, none.aupr_in);
  EXPECT_EQ(none.id_count, 50);
  // A ratio that takes all changes nothing either.
  EXPECT_EQ(ood_metrics(id, ood, parse_balance("5:2", 9)).aupr_in, all.aupr_in);
}

TEST(Balance, TheSeedAloneDecides) {
  const auto id = ramp(1000, 0), ood = ramp(300, 200);
  std::set<double> figures;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const double auroc = ood_metrics(id, ood, Balance{1, 10, seed}).auroc;
    EXPECT_EQ(auroc, ood_metrics(id, ood, Balance{1, 10, seed}).auroc);
    figures.insert(auroc);
  }
  EXPECT_GT(figures.size(), 5u);
}

// P(ID > OOD) does not depend on the ratio; the mean over seeds is that of all scores.
TEST(Balance, ChoosesWithoutFavour) {
  const auto id = ramp(200, 0), ood = ramp(100, 10);
  double sum = 0;
  const int trials = 400;
  for (uint64_t seed = 0; seed < trials; ++seed) sum += ood_metrics(id, ood, Balance{1, 4, seed}).auroc;
  EXPECT_NEAR(sum / trials, ood_metrics(id, ood).auroc, 0.01);
}

TEST(Balance, RefusesWhatIsNoRatio) {
  for (const char* text : {"1", "1:", ":1", "0:1", "1:0", "-1:1", "1:1:1", "a:b", "1.5:1", "1:1 ",
                           "99999999999999999999:1", "2000000:1"})
    expect_error([text] { parse_balance(text, 0); }, {"option balance", text, "ID:OOD", "such as 1:1"});
  expect_error([] { ood_metrics({1, 2}, {3}, Balance{3, 1, 0}); }, {"2 ID and 1 OOD", "3:1"});
}

}  // namespace
}  // namespace poem
