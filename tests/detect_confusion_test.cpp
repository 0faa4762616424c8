#include "poem/confusion.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "detect/results_output.h"
#include "detect/scores_csv.h"
#include "poem/evaluate.h"
#include "world/world.h"

namespace poem {
namespace {

// Three cats, of which one is called a dog and one a fish, two dogs, both right, and no fish.
Confusion small() {
  return count_confusions(at::tensor({0, 1, 0, 0, 1}, at::kLong), at::tensor({0, 1, 1, 2, 1}, at::kLong),
                          {"cat", "dog", "fish"});
}

TEST(Confusion, CountsWhatEachClassIsTakenFor) {
  const Confusion confusion = small();
  EXPECT_EQ(confusion.images, (std::vector<std::vector<int64_t>>{{1, 1, 1}, {0, 2, 0}, {0, 0, 0}}));
  EXPECT_EQ(confusion.count(0), 3);
  EXPECT_DOUBLE_EQ(*confusion.accuracy(0), 1.0 / 3);
  EXPECT_DOUBLE_EQ(*confusion.accuracy(1), 1);
  EXPECT_FALSE(confusion.accuracy(2));
  EXPECT_EQ(*confusion.mistaken_for(0), 1u);
  EXPECT_FALSE(confusion.mistaken_for(1));
  EXPECT_EQ(confusion.worst_first(), (std::vector<size_t>{0, 1}));
}

Results with_all() {
  Results results = make_results({{"far", {0.1, 0.9, 0.8, 0.7, 0.05, 1.5, 5, 4}}}, 0.6);
  results.confusion = small();
  results.at_threshold = AtThreshold{1.5, {{"id", 4, 1}, {"far", 0, 4}}};
  return results;
}

TEST(Confusion, IsPartOfTheResults) {
  const auto json = nlohmann::json::parse(to_json_text(with_all()));
  EXPECT_EQ(json["confusion"], nlohmann::json::parse("[[1,1,1],[0,2,0],[0,0,0]]"));
  EXPECT_EQ(json["classes"][1], nlohmann::json::parse(R"({"name":"dog","images":2,"accuracy":1.0})"));
  EXPECT_TRUE(json["classes"][2]["accuracy"].is_null());
  EXPECT_EQ(json["at_threshold"], nlohmann::json::parse(R"({"threshold":1.5,"id":{"kept":4,"rejected":1},
                                      "sets":{"far":{"kept":0,"rejected":4}}})"));
  Results unsure = with_all();
  unsure.at_threshold = AtThreshold{1.5, {{"id", 4, 1, 1}, {"far", 0, 4, 3}}, 0.5};
  EXPECT_EQ(nlohmann::json::parse(to_json_text(unsure))["at_threshold"], nlohmann::json::parse(R"({
      "threshold":1.5,"unsure_threshold":0.5,"id":{"kept":4,"rejected":1,"unsure":1},
      "sets":{"far":{"kept":0,"rejected":4,"unsure":3}}})"));
  EXPECT_NE(to_table(unsure).find("3 (75.0 % of all)"), std::string::npos) << to_table(unsure);
  // What goes into metrics.jsonl stays as small as it was.
  EXPECT_FALSE(to_json(with_all()).contains("confusion"));
  EXPECT_FALSE(to_json(with_all()).contains("at_threshold"));
  // Of several scores one is the detector's own; the classes are those of all.
  Results other = with_all();
  other.at_threshold.reset();
  const auto several =
      nlohmann::json::parse(to_json_text(ScoreResults{{"msp", other}, {"energy", with_all()}}));
  EXPECT_EQ(several["classes"], json["classes"]);
  EXPECT_EQ(several["confusion"], json["confusion"]);
  EXPECT_EQ(several["scores"]["energy"]["at_threshold"], json["at_threshold"]);
  EXPECT_FALSE(several["scores"]["msp"].contains("at_threshold"));
}

TEST(Confusion, AMatrixTakesALinePerClass) {
  const std::string text = to_json_text(with_all());
  EXPECT_NE(text.find("\"confusion\": [\n    [1,1,1],\n    [0,2,0],\n    [0,0,0]\n  ]"), std::string::npos)
      << text;
}

TEST(Confusion, TheTableHasTheWorstClasses) {
  const std::string table = to_table(with_all());
  for (const char* piece : {"at threshold 1.5  kept  rejected", "far                  0         4",
                            "cat         3     33.33                  dog (1)"})
    EXPECT_NE(table.find(piece), std::string::npos) << table;
  EXPECT_EQ(table.find("fish"), std::string::npos) << "a class without images\n" << table;

  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) names.push_back("class" + std::to_string(i));
  const at::Tensor labels = at::arange(100), predicted = labels.clone();
  for (const int64_t wrong : {7, 33}) predicted[wrong] = 0;
  Results many = with_all();
  many.confusion = count_confusions(labels, predicted, names);
  const std::string short_table = to_table(many);
  for (const char* piece : {"worst of 100 classes", "class7 ", "class33 "})
    EXPECT_NE(short_table.find(piece), std::string::npos) << short_table;
  EXPECT_LT(std::count(short_table.begin(), short_table.end(), '\n'), 16) << short_table;
}

// An untrained detector, ID images without names and OOD images with odd ones.
class Judged : public ::testing::Test {
 protected:
  Judged() {
    NetworkSpec spec;
    spec.name = "wideresnet";
    spec.depth = 10;
    spec.width = 1;
    spec.classes = 8;
    detector.network = make_network(spec, 3);
    detector.score = make_score("energy");
    id = draw_world("test", 40, 1);
    detector.class_names = id.class_names;
    ood = {{"digits, drawn", draw_world("digits", 9, 1)}};
    for (int64_t i = 0; i < 9; ++i) ood[0].images.names.add("a,\"" + std::to_string(i) + "\".png");
    const at::Tensor scores = detector.scores(id);
    detector.threshold = scores.median().item<float>();
  }
  Detector detector;
  ImageSet id;
  std::vector<TestSet> ood;
};

TEST_F(Judged, KeptAndRejectedAreThoseOfTheVerdicts) {
  for (const std::vector<std::shared_ptr<Score>>& scores :
       {std::vector<std::shared_ptr<Score>>{make_score("msp"), detector.score}, {detector.score}}) {
    const Results results = evaluate(detector, scores, {id, ood}).back();
    ASSERT_TRUE(results.at_threshold);
    int64_t known = 0;
    for (const Verdict& verdict : detector.judge(id)) known += verdict.known;
    EXPECT_EQ(results.at_threshold->sets[0].kept, known);
    EXPECT_EQ(results.at_threshold->sets[0].rejected, 40 - known);
    known = 0;
    for (const Verdict& verdict : detector.judge(ood[0].images)) known += verdict.known;
    EXPECT_EQ(results.at_threshold->sets[1].kept, known);
    EXPECT_EQ(results.at_threshold->sets[1].rejected, 9 - known);
    ASSERT_TRUE(results.confusion);
    double right = 0;
    for (size_t label = 0; label < 8; ++label)
      right += static_cast<double>(results.confusion->images[label][label]);
    EXPECT_DOUBLE_EQ(right / 40, *results.id_accuracy);
  }
  EXPECT_FALSE(evaluate(detector, {make_score("msp")}, {id, ood})[0].at_threshold)
      << "the threshold of another score";
  detector.threshold.reset();
  EXPECT_FALSE(evaluate(detector, {detector.score}, {id, ood})[0].at_threshold);
}

TEST_F(Judged, EveryImageHasItsLine) {
  const std::vector<std::shared_ptr<Score>> scores = {make_score("msp"), detector.score};
  const auto sets = score_sets(detector, scores, {id, ood});
  const std::string csv = scores_csv(sets, detector, scores, {id, ood});
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "set,name,class,predicted,verdict,msp,energy");
  const std::vector<Verdict> known = detector.judge(id), unknown = detector.judge(ood[0].images);
  for (int64_t i = 0; i < 49; ++i) {
    std::getline(lines, line);
    const Verdict& verdict = i < 40 ? known[i] : unknown[i - 40];
    const std::string start =
        i < 40 ? "id," + std::to_string(i) + "," + id.class_names[id.labels[i].item<int64_t>()]
               : "\"digits, drawn\",\"a,\"\"" + std::to_string(i - 40) + "\"\".png\",";
    EXPECT_EQ(line.rfind(start + "," + detector.class_names[verdict.label] + "," +
                             (verdict.known ? "known" : "unknown") + ",",
                         0),
              0u)
        << line;
    EXPECT_EQ(std::stof(line.substr(line.rfind(',') + 1)), verdict.score);
  }
  EXPECT_FALSE(std::getline(lines, line));
  const std::string other =
      scores_csv(score_sets(detector, {scores[0]}, {id, ood}), detector, {scores[0]}, {id, ood});
  EXPECT_EQ(other.find("known"), std::string::npos) << "a verdict by another score";
}

}  // namespace
}  // namespace poem
