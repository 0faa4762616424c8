// Means, deviations and tables of a study, against figures worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "core/text.h"
#include "expect_error.h"
#include "study/study_table.h"
#include "temporary_folder.h"

namespace poem {
namespace {

using nlohmann::ordered_json;

ordered_json figures(double fpr95, double auroc) {
  return {
      {"fpr95", fpr95}, {"auroc", auroc}, {"aupr_in", 0.5}, {"aupr_out", 0.25}, {"detection_error", 0.125}};
}

CellResult cell(size_t method, int64_t seed, double fpr95, std::optional<double> accuracy) {
  CellResult cell{0, method, seed, "run", "energy", 90, {}, {}};
  for (const double shift : {-0.01, 0.01}) {  // two sets around the mean
    auto& set = cell.results["sets"][shift < 0 ? "near" : "far, \"x\""] = figures(fpr95 + shift, 0.9);
    set["id_count"] = 100;
    set["ood_count"] = shift < 0 ? 40 : 50;
  }
  cell.results["mean"] = figures(fpr95, 0.9);
  cell.results["id_accuracy"] = accuracy ? ordered_json(*accuracy) : ordered_json(nullptr);
  return cell;
}

Study study(std::vector<int64_t> seeds) {
  Study study;
  study.title = "Title_1";
  study.seeds = std::move(seeds);
  study.settings = {{"", {}}};
  study.methods = {{"A & b", {}, {{"", {{"fpr95", 3.5}}}}}, {"C|D", {}, {}}};
  for (const char* key : {"fpr95", "near.fpr95", "id_accuracy", "minutes"})
    study.columns.push_back(study_column(key));
  return study;
}

TEST(StudySummary, IsMeanAndSampleDeviation) {
  EXPECT_FALSE(summarise({}).mean);
  EXPECT_EQ(*summarise({7}).mean, 7);
  EXPECT_FALSE(summarise({7}).deviation);
  const Summary three = summarise({1, 2, 6});  // squares about 3: 4 + 1 + 9 over n − 1 = 2
  EXPECT_DOUBLE_EQ(*three.mean, 3);
  EXPECT_DOUBLE_EQ(*three.deviation, std::sqrt(7));
  EXPECT_EQ(*summarise({4, 4}).deviation, 0);
}

TEST(StudySummary, TakesTheDeviationOfTheMeanOverSets) {
  const std::vector<CellResult> results = {cell(0, 0, 0.10, 0.9), cell(0, 1, 0.14, 0.9), cell(1, 0, 0.5, {}),
                                           cell(1, 1, 0.5, 0.8)};
  const Summary fpr95 = summarise(results, 0, 0, study_column("fpr95"));
  EXPECT_NEAR(*fpr95.mean, 12, 1e-12);
  EXPECT_NEAR(*fpr95.deviation, std::sqrt(8), 1e-12);
  EXPECT_NEAR(*summarise(results, 0, 0, study_column("near.fpr95")).mean, 11, 1e-12);
  EXPECT_DOUBLE_EQ(*summarise(results, 0, 0, study_column("minutes")).mean, 1.5);
  EXPECT_FALSE(summarise(results, 0, 1, study_column("id_accuracy")).mean) << "one seed has none";
}

TEST(StudyTable, MarksTheBestAndHasThePapersFigures) {
  const std::vector<CellResult> results = {cell(0, 0, 0.10, {}), cell(0, 1, 0.14, {}), cell(1, 0, 0.5, 0.75),
                                           cell(1, 1, 0.5, 0.75)};
  const StudyTable table = make_table(study({0, 1}), {results, {}});
  const std::string markdown = to_markdown(table);
  const auto expect = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  };
  expect(markdown, "| method | FPR95 ↓ | paper | near FPR95 ↓ | ID acc ↑ | minutes ↓ |\n");
  expect(markdown, "| A & b | **12.00 ± 2.83** | 3.50 | **11.00 ± 2.83** | NA | **1.50 ± 0.00** |\n");
  expect(markdown, "| C\\|D | 50.00 ± 0.00 |  | 49.00 ± 0.00 | **75.00 ± 0.00** | **1.50 ± 0.00** |\n");
  expect(markdown, "2 seeds (0, 1)");
  expect(markdown, "100 ID images against near 40, far, \"x\" 50");
  const std::string tex = to_latex(table);
  expect(tex, "\\caption{Title\\_1. ");
  expect(tex, "A \\& b & \\textbf{12.00 $\\pm$ 2.83} & 3.50 & ");
  expect(tex, "\\begin{tabular}{lrrrrr}");
  EXPECT_EQ(tex.find("±"), std::string::npos);
  expect(to_text(table, Terminal{}), "A & b   12.00 +- 2.83   3.50");
  expect(to_text(table, {true, true, true, 200}), "│ A & b  │ \033[1m12.00 ± 2.83\033[0m │  3.50 │");
}

TEST(StudyTable, LatexHasEveryCharacterOfAName) {
  Study named = study({0});
  named.title = R"(a\b^c~d{e}&%$#_)";
  const std::string tex = to_latex(make_table(named, {}));
  EXPECT_NE(tex.find(R"(\caption{a\textbackslash{}b\textasciicircum{}c\textasciitilde{}d\{e\}\&\%\$\#\_. )"),
            std::string::npos)
      << tex;
}

TEST(StudyTable, OneSeedHasNoDeviation) {
  const std::string markdown =
      to_markdown(make_table(study({4}), {{cell(0, 4, 0.1, 0.9), cell(1, 4, 0.10004, 0.9)}, {}}));
  EXPECT_NE(markdown.find("| A & b | **10.00** |"), std::string::npos) << markdown;
  EXPECT_NE(markdown.find("| C\\|D | **10.00** |"), std::string::npos) << "looks the same: " << markdown;
}

TEST(StudyRecord, NamesTheFileThatContradictsItself) {
  TemporaryFolder folder;
  const std::string text = to_json_text(study({0}), {{cell(0, 0, 0.1, 0.9)}, {}});
  folder.put("results.json", replaced(text, "\"method\": \"A & b\"", "\"method\": \"Z\""));
  expect_error([&] { read_study_results(folder / "results.json"); },
               {folder / "results.json", "'Z'", "poem study"});
}

TEST(StudyTable, SaysWhatIsMissing) {
  const StudyResults results = {{cell(0, 0, 0.10, 0.9), cell(0, 1, 0.14, 0.9), cell(1, 1, 0.05, 0.9)},
                                {{0, 1, 0, "out of luck"}}};
  const std::string partly = to_markdown(make_table(study({0, 1}), results));
  EXPECT_NE(partly.find("| A & b | **12.00 ± 2.83** |"), std::string::npos) << partly;
  EXPECT_NE(partly.find("| C\\|D | 5.00 (1/2) |"), std::string::npos) << "no rival: " << partly;
  EXPECT_NE(partly.find("Failed: C|D, seed 0."), std::string::npos) << partly;
  const std::string open = to_markdown(make_table(study({0}), {{}, {{0, 0, 0, ""}, {0, 1, 0, "no"}}}));
  EXPECT_NE(open.find("| A & b | missing | 3.50 | missing |"), std::string::npos) << open;
  EXPECT_NE(open.find("| C\\|D | failed |"), std::string::npos) << open;
  EXPECT_NE(open.find("Failed: C|D, seed 0. Not finished: 1 of 2 cells."), std::string::npos) << open;
}

TEST(StudyTable, EverySettingHasItsBest) {
  Study two = study({0});
  two.settings = {{"easy", {}}, {"hard", {}}};
  std::vector<CellResult> results = {cell(0, 0, 0.1, 0.9), cell(1, 0, 0.2, 0.9), cell(0, 0, 0.6, 0.9),
                                     cell(1, 0, 0.5, 0.9)};
  results[2].setting = results[3].setting = 1;
  const std::string markdown = to_markdown(make_table(two, {results, {}}));
  EXPECT_NE(markdown.find("| easy | A & b | **10.00"), std::string::npos) << markdown;
  EXPECT_NE(markdown.find("|  | C\\|D | 20.00"), std::string::npos) << markdown;
  EXPECT_NE(markdown.find("| hard | A & b | 60.00"), std::string::npos) << markdown;
  EXPECT_NE(markdown.find("|  | C\\|D | **50.00"), std::string::npos) << markdown;
}

TEST(StudyFiles, CsvHasALineASetAndTheMean) {
  EXPECT_EQ(
      to_csv(study({0}), {cell(0, 0, 0.25, {})}),
      "setting,method,seed,set,fpr95,auroc,aupr_in,aupr_out,detection_error,id_accuracy,id_count,ood_count,"
      "seconds\n"
      ",A & b,0,near,0.24,0.9,0.5,0.25,0.125,,100,40,90.000\n"
      ",A & b,0,\"far, \"\"x\"\"\",0.26,0.9,0.5,0.25,0.125,,100,50,90.000\n"
      ",A & b,0,mean,0.25,0.9,0.5,0.25,0.125,,,,90.000\n");
}

TEST(StudyFiles, CurvesHaveTheEpochsThatWereEvaluated) {
  CellResult one = cell(1, 2, 0.25, 0.5);
  one.curve = {{5, one.results}, {10, one.results}};
  const std::string csv = curves_csv(study({2}), {one});
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 2 * 3);
  EXPECT_NE(csv.find("\n,C|D,2,5,near,0.24,"), std::string::npos) << csv;
  EXPECT_NE(csv.find("\n,C|D,2,10,mean,0.25,0.9,0.5,0.25,0.125,0.5,,\n"), std::string::npos) << csv;
}

TEST(StudyFiles, JsonHasCellsAndTable) {
  const auto json = ordered_json::parse(to_json_text(
      study({0, 1}),
      {{cell(0, 0, 0.1, {}), cell(0, 1, 0.14, {}), cell(1, 0, 0.5, 1)}, {{0, 1, 1, "out of luck"}}}));
  EXPECT_EQ(json.at("cells").size(), 3);
  EXPECT_EQ(json.at("missing")[0].at("method"), "C|D");
  EXPECT_EQ(json.at("missing")[0].at("failure"), "out of luck");
  EXPECT_EQ(json.at("table")[1].at("fpr95").at("seeds"), 1);
  EXPECT_EQ(json.at("cells")[1].at("results").at("mean").at("fpr95"), 0.14);
  EXPECT_NEAR(json.at("table")[0].at("fpr95").at("mean").get<double>(), 12, 1e-9);
  EXPECT_EQ(json.at("table")[0].at("fpr95").at("paper"), 3.5);
  EXPECT_TRUE(json.at("table")[0].at("id_accuracy").at("mean").is_null());
}

}  // namespace
}  // namespace poem
