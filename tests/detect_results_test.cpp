#include "detect/results.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "expect_error.h"

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
            "set,fpr95,auroc,aupr_in,aupr_out,detection_error,id_accuracy,id_count,ood_count\n"
            "svhn,0.1,0.9,0.8,0.7,0.05,,100,20\n"
            "\"a, \"\"b\"\"\",0.3,0.7,0.6,0.5,0.15,,100,40\n"
            "mean,0.2,0.8,0.7,0.6,0.1,,,\n");
  EXPECT_NE(to_csv(two_sets(0.5)).find("svhn,0.1,0.9,0.8,0.7,0.05,0.5,100,20\n"), std::string::npos);
}

TEST(Results, TableIsInPercent) {
  const std::string table = to_table(two_sets(0.9349));
  for (const char* piece : {"FPR95", "svhn", "10.00", "90.00", "mean", "20.00", "ID accuracy 93.49"}) {
    EXPECT_NE(table.find(piece), std::string::npos) << table;
  }
  EXPECT_EQ(to_table(two_sets()).find("accuracy"), std::string::npos);
}

TEST(ScoreResults, NameTheScoreBesideEverySet) {
  const ScoreResults results = {{"knn", two_sets(0.5)}, {"mahalanobis", two_sets(0.5)}};
  const auto json = nlohmann::json::parse(to_json_text(results));
  EXPECT_EQ(json["scores"].size(), 2u);
  EXPECT_EQ(json["scores"]["knn"], nlohmann::json::parse(to_json_text(two_sets(0.5))));
  const std::string csv = to_csv(results);
  EXPECT_EQ(csv.rfind("score,set,fpr95,", 0), 0u) << csv;
  EXPECT_NE(csv.find("\nknn,svhn,0.1,0.9,0.8,0.7,0.05,0.5,100,20\n"), std::string::npos) << csv;
  EXPECT_NE(csv.find("\nmahalanobis,mean,0.2,0.8,0.7,0.6,0.1,0.5,,\n"), std::string::npos) << csv;
  const std::string table = to_table(results);
  for (const char* piece : {"knn          20.00  80.00", "mahalanobis  20.00  80.00",
                            "means over the OOD sets; 100 ID against svhn 20,", "ID accuracy 50.00"}) {
    EXPECT_NE(table.find(piece), std::string::npos) << table;
  }
}

}  // namespace
}  // namespace poem
