#include "poem/results.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "detect/results_output.h"
#include "expect_error.h"
#include "poem/scores.h"

namespace poem {
namespace {

Results two_sets(std::optional<double> id_accuracy = std::nullopt) {
  OodMetrics a{0.1, 0.9, 0.8, 0.7, 0.05, 1.5, 100, 20};
  OodMetrics b{0.3, 0.7, 0.6, 0.5, 0.15, 1.5, 100, 40};
  return make_results({{"svhn", a}, {"a, \"b\"", b}}, id_accuracy);
}

TEST(Results, MeanIsOverSets) {
  const Results results = two_sets();
  EXPECT_DOUBLE_EQ(results.mean.fpr95, 0.2);
  EXPECT_DOUBLE_EQ(results.mean.auroc, 0.8);
  EXPECT_DOUBLE_EQ(results.mean.aupr_in, 0.7);
  EXPECT_DOUBLE_EQ(results.mean.aupr_out, 0.6);
  EXPECT_DOUBLE_EQ(results.mean.detection_error, 0.1);
  expect_error([] { make_results({}); }, {"no OOD set"});
}

TEST(Results, JsonHoldsSharesByName) {
  const auto json = nlohmann::json::parse(to_json(two_sets()).dump());
  EXPECT_EQ(json["sets"]["svhn"]["fpr95"], 0.1);
  EXPECT_EQ(json["sets"]["svhn"]["detection_error"], 0.05);
  EXPECT_EQ(json["sets"]["svhn"]["id_count"], 100);
  EXPECT_EQ(json["sets"]["a, \"b\""]["ood_count"], 40);
  EXPECT_EQ(json["sets"].size(), 2u);
  EXPECT_EQ(json["mean"].size(), 5u);
  EXPECT_TRUE(json["id_accuracy"].is_null());
  EXPECT_EQ(to_json(two_sets(0.94))["id_accuracy"], 0.94);
}

TEST(Results, CsvQuotesNamesAndLeavesUnknownsEmpty) {
  EXPECT_EQ(to_csv(two_sets()),
            "set,fpr95,auroc,aupr_in,aupr_out,detection_error,id_accuracy,id_count,ood_count,problem\n"
            "svhn,0.1,0.9,0.8,0.7,0.05,,100,20,\n"
            "\"a, \"\"b\"\"\",0.3,0.7,0.6,0.5,0.15,,100,40,\n"
            "mean,0.2,0.8,0.7,0.6,0.1,,,,\n");
  EXPECT_NE(to_csv(two_sets(0.5)).find("svhn,0.1,0.9,0.8,0.7,0.05,0.5,100,20,\n"), std::string::npos);
}

TEST(Results, TableIsInPercent) {
  const std::string table = to_table(two_sets(0.9349));
  for (const char* piece : {"FPR95", "svhn", "10.00", "90.00", "mean", "20.00", "ID accuracy 93.49"}) {
    EXPECT_NE(table.find(piece), std::string::npos) << table;
  }
  EXPECT_EQ(to_table(two_sets()).find("accuracy"), std::string::npos);
}

TEST(Results, OfScoresThatAreAllTheSameSaySo) {
  const Results same = results_of({2, 2, 2}, {{"a", {2}}, {"b", {2, 2}}});
  EXPECT_EQ(same.mean.auroc, 0.5);
  EXPECT_EQ(same.problem, "all scores are 2: they cannot separate ID from OOD");
  EXPECT_NE(to_table(same).find(same.problem), std::string::npos);
  EXPECT_EQ(to_json(same)["problem"], same.problem);
  EXPECT_NE(to_csv(same).find("a,1,0.5,0.75,0.25,0.5,,3,1," + same.problem), std::string::npos)
      << to_csv(same);
  EXPECT_NO_THROW(check_figures("energy", same));
  EXPECT_EQ(results_of({2, 2}, {{"a", {2}}, {"b", {3}}}).problem, "");
  EXPECT_EQ(results_of({2, 3}, {{"a", {2}}}).problem, "");
}

TEST(Results, OfScoresThatAreNotFiniteHaveNoFigures) {
  const auto energy = make_score("energy");
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(results_of({1, inf}, {{"a", {0}}}).has_figures());  // what a file says may be infinite
  const Results none = results_of(*energy, {1, 2}, {{"a", {0}}, {"b", {1, -inf, std::nan("")}}});
  EXPECT_FALSE(none.has_figures());
  EXPECT_EQ(none.problem, "the score at index 1 of b is -inf");
  EXPECT_EQ(results_of(*energy, {1, std::nan("")}, {{"a", {0}}}).problem,
            "the score at index 1 of id is nan");
  const auto json = nlohmann::json::parse(to_json_text(none));
  EXPECT_TRUE(json["sets"]["b"]["fpr95"].is_null());
  EXPECT_TRUE(json["mean"]["auroc"].is_null());
  EXPECT_EQ(json["sets"]["b"]["ood_count"], 3);
  EXPECT_EQ(json["problem"], none.problem);
  EXPECT_NE(to_csv(none).find("b,NA,NA,NA,NA,NA,,2,3,the score at index 1 of b is -inf\n"),
            std::string::npos);
  const ScoreResults both = {{"energy", none}, {"knn", two_sets()}};
  const std::string table = to_table(both);
  for (const char* piece :
       {"energy     NA     NA", "knn     20.00  80.00", "energy: the score at index 1 of b is -inf\n"})
    EXPECT_NE(table.find(piece), std::string::npos) << table;
  expect_error([&] { check_figures("energy", none); }, {"score 'energy'", "index 1 of b is -inf"});
}

TEST(ScoreResults, NameTheScoreBesideEverySet) {
  const ScoreResults results = {{"knn", two_sets(0.5)}, {"mahalanobis", two_sets(0.5)}};
  const auto json = nlohmann::json::parse(to_json_text(results));
  EXPECT_EQ(json["scores"].size(), 2u);
  EXPECT_EQ(json["scores"]["knn"], nlohmann::json::parse(to_json_text(two_sets(0.5))));
  const std::string csv = to_csv(results);
  EXPECT_EQ(csv.rfind("score,set,fpr95,", 0), 0u) << csv;
  EXPECT_NE(csv.find("\nknn,svhn,0.1,0.9,0.8,0.7,0.05,0.5,100,20,\n"), std::string::npos) << csv;
  EXPECT_NE(csv.find("\nmahalanobis,mean,0.2,0.8,0.7,0.6,0.1,0.5,,,\n"), std::string::npos) << csv;
  const std::string table = to_table(results);
  for (const char* piece : {"knn          20.00  80.00", "mahalanobis  20.00  80.00",
                            "means over the OOD sets; 100 ID against svhn 20,", "ID accuracy 50.00"}) {
    EXPECT_NE(table.find(piece), std::string::npos) << table;
  }
}

}  // namespace
}  // namespace poem
