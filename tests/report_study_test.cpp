// What a study's report says, against figures worked out by hand, and that names stay text.
#include "report/study_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "core/file.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace poem {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

bool has(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }

ordered_json results(double fpr95) {
  const ordered_json figures = {
      {"fpr95", fpr95}, {"auroc", 0.9}, {"aupr_in", 0.5}, {"aupr_out", 0.25}, {"detection_error", 0.125}};
  ordered_json all = {{"sets", {{"far", figures}}}, {"mean", figures}, {"id_accuracy", 0.75}};
  all["sets"]["far"]["id_count"] = 100;
  all["sets"]["far"]["ood_count"] = 50;
  return all;
}

CellResult cell(size_t method, int64_t seed, double fpr95, double seconds = 120) {
  return {0, method, seed, "run-name", "energy", seconds, results(fpr95), {}};
}

StudyRecord record_of(std::vector<CellResult> cells, std::vector<MissingCell> missing = {}) {
  StudyRecord record;
  record.study.title = "A title";
  record.study.seeds = {0, 1, 2};
  record.study.settings = {{"", {}}};
  record.study.methods = {{"A", {}, {{"", {{"fpr95", 3.5}}}}}, {"B", {}, {}}};
  for (const char* key : {"fpr95", "id_accuracy"}) record.study.columns.push_back(study_column(key));
  record.results = {std::move(cells), std::move(missing)};
  return record;
}

StudyRecord full_record() {
  return record_of({cell(0, 0, 0.10), cell(0, 1, 0.12), cell(0, 2, 0.11), cell(1, 0, 0.60), cell(1, 1, 0.63),
                    cell(1, 2, 0.60)});
}

// The data that the page carries for its script.
json pieces_of(const std::string& html) {
  const std::string start = "<script type=\"application/json\" id=\"data\">";
  const size_t from = html.find(start) + start.size();
  return json::parse(html.substr(from, html.find("</script>", from) - from));
}

json piece_of(const std::string& html, const std::string& kind) {
  for (const json& grid : pieces_of(html)) {
    for (const json& piece : grid.at("pieces")) {
      if (piece.at("kind") == kind) return piece;
    }
  }
  return {};
}

TEST(StudyReport, HasTableVerdictAndPapersFigures) {
  const std::string html = study_report(full_record());
  EXPECT_TRUE(
      has(html, "A has the lowest mean FPR95, 11.00 ± 1.00\u00a0%; every other method compared is worse"))
      << html;
  EXPECT_TRUE(has(html, "<strong>11.00 ± 1.00</strong></td><td>3.50</td>"));
  EXPECT_TRUE(has(html, "<td>61.00 ± 1.73</td>"));
  EXPECT_TRUE(has(html, "run-name"));
  EXPECT_FALSE(has(html, "not complete"));
}

TEST(StudyReport, DifferencesArePairedWithTIntervals) {
  const json piece = piece_of(study_report(full_record()), "intervals");
  // 50, 51 and 49 points: mean 50, deviation 1, t = 4.3027 with two degrees of freedom.
  const double half = 4.30265 / std::sqrt(3.0);
  EXPECT_EQ(piece.at("names"), json({"B"}));
  EXPECT_NEAR(piece.at("middle")[0].get<double>(), 50, 1e-9);
  EXPECT_NEAR(piece.at("low")[0].get<double>(), 50 - half, 1e-4);
  EXPECT_NEAR(piece.at("high")[0].get<double>(), 50 + half, 1e-4);
}

TEST(StudyReport, AmountsAsSettingsGiveALine) {
  std::vector<CellResult> cells;
  for (size_t setting = 0; setting < 3; ++setting) {
    for (int64_t seed = 0; seed < 2; ++seed) {
      cells.push_back(
          cell(0, seed, 0.1 * static_cast<double>(setting + 1) + 0.02 * static_cast<double>(seed)));
      cells.back().setting = setting;
    }
  }
  StudyRecord record = record_of(cells);
  record.study.settings = {{"33 % photos", {}}, {"4 % photos", {}}, {"100 % photos", {}}};
  const std::string html = study_report(record);
  EXPECT_TRUE(has(html, "By setting"));
  const json piece = piece_of(html, "lines");  // the first of the page: there are no curves
  EXPECT_EQ(piece.at("x").at("label"), "% photos");
  ASSERT_EQ(piece.at("series").size(), 1u);  // B has no figures
  EXPECT_EQ(piece.at("series")[0].at("x"), json({4.0, 33.0, 100.0}));
  EXPECT_NEAR(piece.at("series")[0].at("y")[0].get<double>(), 21, 1e-9);
  EXPECT_NEAR(piece.at("series")[0].at("low")[1].get<double>(), 11 - std::sqrt(2.0), 1e-9);

  record.study.settings[2].name = "all photos";
  EXPECT_FALSE(has(study_report(record), "By setting"));
}

TEST(StudyReport, OneSeedHasNoInterval) {
  StudyRecord record = record_of({cell(0, 0, 0.1), cell(1, 0, 0.2)});
  record.study.seeds = {0};
  const std::string html = study_report(record);
  EXPECT_TRUE(piece_of(html, "intervals").at("low")[0].is_null());
  EXPECT_TRUE(has(
      html, "A has the lowest mean FPR95, 10.00\u00a0%; there are too few seeds to distinguish it from B."));
}

// What a failed cell leaves is compared over the seeds in common, and the sentence says so.
TEST(StudyReport, SpeaksOfTheSeedsInCommon) {
  // B has 20 % on seed 0 alone, where A has 70 %; A's mean is 40 %.
  const std::string html = study_report(record_of(
      {cell(0, 0, 0.70), cell(0, 1, 0.25), cell(0, 2, 0.25), cell(1, 0, 0.20)}, {{0, 1, 1, "failed"}}));
  EXPECT_TRUE(has(
      html,
      "A has the lowest mean FPR95 of the methods with all 3 seeds, 40.00 ± 25.98\u00a0%; there are too few "
      "seeds to distinguish it from B."));
  EXPECT_NEAR(piece_of(html, "intervals").at("middle")[0].get<double>(), -50, 1e-9);
  EXPECT_EQ(piece_of(html, "intervals").at("names"), json({"B (1 seed)"}));
  // On seeds 0 and 1 B is lower by 50.0 and 50.1 points: no chance, whatever seed 2 says of A.
  const std::string lower = study_report(
      record_of({cell(0, 0, 0.70), cell(0, 1, 0.70), cell(0, 2, 0), cell(1, 0, 0.2), cell(1, 1, 0.199)}));
  EXPECT_TRUE(has(lower, "; over the seeds in common these are lower, by more than the seeds explain: B."));
  EXPECT_FALSE(has(lower, "is worse by more"));
  const std::string begun = study_report(record_of({cell(0, 0, 0.70), cell(1, 0, 0.60)}));
  EXPECT_TRUE(has(begun,
                  "B has the lowest mean FPR95, 60.00\u00a0%, over 1 of 3 seeds; there are too few seeds to "
                  "distinguish it from A."));
}

TEST(StudyReport, NamesMethodsThatAreNotCompared) {
  StudyRecord record = full_record();
  record.study.methods.push_back({"C", {}, {}});
  const char* words = "more than the seeds explain; not compared, because no seed is in common: C.";
  EXPECT_TRUE(has(study_report(record), words));
  record.results.cells.push_back(cell(2, 0, 0.3));
  record.results.cells.back().results["mean"]["fpr95"] = nullptr;
  EXPECT_TRUE(has(study_report(record), words));
}

TEST(StudyReport, MethodsWithTheSameMeanAreLevel) {
  StudyRecord record = record_of({cell(0, 0, 0.10), cell(0, 1, 0.12), cell(0, 2, 0.11), cell(1, 0, 0.11),
                                  cell(1, 1, 0.11), cell(1, 2, 0.11)});
  EXPECT_TRUE(has(study_report(record), "A and B share the lowest mean FPR95, 11.00\u00a0%.</p>"));
  record.study.methods.push_back({"C", {}, {}});
  for (int64_t seed = 0; seed < 3; ++seed)
    record.results.cells.push_back(cell(2, seed, seed == 1 ? 0.9 : 0.1));
  EXPECT_TRUE(has(study_report(record), "11.00\u00a0%; the seeds do not distinguish them from C.</p>"));
}

TEST(StudyReport, IntervalsAndBandsStayWithinWhatFpr95CanBe) {
  StudyRecord record = record_of({cell(0, 0, 0.1), cell(0, 1, 0.9), cell(1, 0, 0.9), cell(1, 1, 0.3)});
  record.study.seeds = {0, 1};
  const json piece = piece_of(study_report(record), "intervals");
  EXPECT_EQ(piece.at("low")[0], -100);
  EXPECT_EQ(piece.at("high")[0], 100);
  record.results.cells[0].curve = {{5, results(1.0)}};
  record.results.cells[1].curve = {{5, results(0.5)}};
  EXPECT_EQ(curve_series(record, 0)[0].at("high")[0], 100);
}

TEST(StudyReport, TimesAreMinutesAgainstFpr95) {
  const json piece = piece_of(
      study_report(record_of({cell(0, 0, 0.1, 60), cell(0, 1, 0.3, 180), cell(1, 0, 0.5)})), "scatter");
  const json& series = piece.at("series")[0];
  EXPECT_EQ(series.at("names"), json({"A", "B"}));
  EXPECT_DOUBLE_EQ(series.at("x")[0].get<double>(), 2);
  EXPECT_DOUBLE_EQ(series.at("y")[0].get<double>(), 20);
  EXPECT_EQ(piece.at("x").at("label"), "minutes of training");
  const json quick = piece_of(study_report(record_of({cell(0, 0, 0.1, 30), cell(1, 0, 0.3, 90)})), "scatter");
  EXPECT_EQ(quick.at("x").at("label"), "seconds of training");
  EXPECT_DOUBLE_EQ(quick.at("series")[0].at("x")[1].get<double>(), 90);
}

TEST(StudyReport, CurvesHaveMeansAndBands) {
  StudyRecord record = full_record();
  EXPECT_TRUE(curve_series(record, 0).empty());
  EXPECT_TRUE(has(study_report(record), "Only the last epoch was evaluated"));
  record.results.cells[0].curve = {{5, results(0.4)}, {10, results(0.1)}};
  record.results.cells[1].curve = {{5, results(0.2)}};
  const json series = curve_series(record, 0);
  ASSERT_EQ(series.size(), 1);
  EXPECT_EQ(series[0].at("x"), json({5, 10}));
  EXPECT_NEAR(series[0].at("y")[0].get<double>(), 30, 1e-9);
  EXPECT_NEAR(series[0].at("high")[0].get<double>(), 30 + std::sqrt(200), 1e-9);
  EXPECT_NEAR(series[0].at("low")[0].get<double>(), 30 - std::sqrt(200), 1e-9);
  EXPECT_TRUE(series[0].at("low")[1].is_null()) << "one seed has no band";
}

TEST(StudyReport, SaysWhatIsMissing) {
  const std::string html =
      study_report(record_of({cell(0, 0, 0.1)}, {{0, 0, 1, ""}, {0, 1, 0, "out of <luck>"}}));
  EXPECT_TRUE(has(html, "2 of 3 cells are missing"));
  EXPECT_TRUE(has(html, "B, seed 0: out of &lt;luck&gt;"));
  EXPECT_TRUE(has(html, "1 not finished"));
  EXPECT_TRUE(has(html, "10.00 (1/3)"));
  EXPECT_TRUE(has(html, "A comparison needs two methods with a seed in common"));
  EXPECT_TRUE(has(study_report(record_of({cell(0, 0, 0.1)}, {{0, 0, 1, ""}})), "1 of 2 cells is missing"));
  const std::string nothing = study_report(record_of({}, {{0, 0, 0, ""}, {0, 1, 0, ""}}));
  EXPECT_TRUE(has(nothing, "There is nothing to compare yet"));
}

TEST(StudyReport, NamesAreText) {
  const std::string hostile = "</script><img src=x onerror=alert(1)><!--\"'&";
  StudyRecord record = full_record();
  record.study.title = record.study.methods[0].name = record.study.settings[0].name = hostile;
  record.study.methods[0].paper = {};
  for (CellResult& one : record.results.cells) {
    one.run = hostile;
    one.results["sets"][hostile] = one.results["sets"]["far"];
    one.curve = {{1, results(0.5)}};
  }
  record.results.missing = {{0, 0, 7, hostile}};
  const std::string html = study_report(record, hostile);
  EXPECT_FALSE(has(html, "<img"));
  EXPECT_FALSE(has(html, "<!--"));
  EXPECT_EQ(piece_of(html, "scatter").at("series")[0].at("names")[0], hostile);
}

TEST(StudyRecord, ComesBackFromItsFile) {
  const TemporaryFolder folder;
  StudyRecord record = full_record();
  record.results.cells.pop_back();
  record.results.missing = {{0, 1, 2, "out of luck"}};
  record.results.cells[0].curve = {{5, results(0.4)}};
  folder.put("results.json", to_json_text(record.study, record.results));
  const StudyRecord read = read_study_results(folder / "results.json");
  EXPECT_EQ(to_json_text(read.study, read.results), to_json_text(record.study, record.results));
  EXPECT_EQ(study_report(read), study_report(record));
  folder.put("study.yaml", "title: A <title>");
  EXPECT_TRUE(is_study(folder / ""));
  EXPECT_TRUE(has(study_report_of(folder / ""), "<pre>title: A &lt;title&gt;</pre>"));
  folder.put("results.json", "{\"format\": \"poem-study-0\"}");
  expect_error([&] { study_report_of(folder / ""); }, {"results.json", "poem-study-0", "poem-study-1"});
  folder.put("results.json", "{\"format\": \"poem-study-1\", \"title\": 3}");
  expect_error([&] { study_report_of(folder / ""); }, {"results.json", "damaged", "poem study"});
  for (const char* key : {"mean", "sets", "id_accuracy"}) {
    ordered_json file = ordered_json::parse(to_json_text(record.study, record.results));
    for (ordered_json& entry : file["cells"]) entry["results"].erase(key);
    folder.put("results.json", file.dump());
    expect_error([&] { study_report_of(folder / ""); }, {"results.json", "damaged", key, "poem study"});
  }
  folder.put("results.json", "not JSON");
  expect_error([&] { study_report_of(folder / ""); }, {"results.json", "damaged"});
  std::filesystem::remove(folder / "results.json");
  expect_error([&] { study_report_of(folder / ""); }, {"without results"});
}

}  // namespace
}  // namespace poem
