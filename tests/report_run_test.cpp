#include "report/run_report.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/file.h"
#include "core/npy.h"
#include "core/safetensors.h"
#include "expect_error.h"
#include "images/encode.h"
#include "report/comparison.h"
#include "report/page.h"
#include "temporary_folder.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

bool has(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// A run of two epochs with ten ID scores 1 … 10 and OOD sets far (1, 2, 3, 4) and near (5, 6, 7, 8).
class RunFolder {
 public:
  RunFolder() {
    put("config.yaml",
        "format: 1\nseed: 7\nscore: energy\nmining:\n  miner: thompson\ntrain:\n  epochs: 2\n");
    put("metrics.jsonl",
        R"({"epoch":1,"loss":2.5,"seconds":{"mine":1,"train":2,"queue":0.5},"mining":{"spread":0.25,"classes":[{"name":"bird","pool":0.5,"mined":0.75}]}})"
        "\n"
        R"({"epoch":2,"loss":1.5,"validation_accuracy":0.625,"seconds":{"mine":1,"train":2,"queue":0.5},"mining":null})"
        "\n");
    put("results.json",
        R"({"sets":{"near":{"fpr95":0.25,"auroc":0.9,"id_count":10,"ood_count":4},"far":{"fpr95":0.5,"auroc":0.7}},"id_accuracy":0.875})");
    fs::create_directories(folder_ / "scores");
    write_npy(folder_ / "scores/id.npy", at::arange(10, 0, -1, at::kFloat));
    write_npy(folder_ / "scores/far.npy", at::arange(1, 5, at::kFloat));
    write_npy(folder_ / "scores/near.npy", at::arange(5, 9, at::kFloat));
    TensorFile detector;
    detector.metadata = {{"detector", R"({"threshold": 3})"}};
    write_safetensors(folder_ / "detector.safetensors", detector);
    fs::create_directories(folder_ / "checkpoint");
    TensorFile checkpoint;
    checkpoint.metadata = {{"poem", "0.1.0"}, {"surroundings", R"({"threads": 2, "device": "cpu"})"}};
    write_safetensors(folder_ / "checkpoint/state.safetensors", checkpoint);
    put_sheet("mined-0001", R"({"tile":2,"columns":8,"tiles":[{"index":3,"class":"bird"}]})");
    put_sheet("ood-as-id",
              R"({"tile":2,"columns":8,"tiles":[{"set":"near","index":3,"score":8,"predicted":"car"}]})");
  }

  void put(const std::string& name, const std::string& content) const { folder_.put(name, content); }
  void put_sheet(const std::string& name, const std::string& list) const {
    put("gallery/" + name + ".json", list);
    put("gallery/" + name + ".png", encode_png(at::zeros({2, 16, 3}, at::kByte)));
  }
  std::string name() const { return fs::path(path()).filename().string(); }
  void remove(const std::string& name) const { fs::remove_all(folder_ / name); }
  const std::string& path() const { return folder_.path(); }
  RunData read() const { return read_run(folder_.path()); }
  std::string report() const { return run_report(read()); }

 private:
  TemporaryFolder folder_;
};

TEST(RunReport, ReadsAllThatAFinishedRunHolds) {
  const RunData run = RunFolder().read();
  EXPECT_TRUE(run.finished());
  EXPECT_EQ(joined(run.notes), "");
  EXPECT_EQ(run.setting("mining.miner"), "thompson");
  EXPECT_EQ(run.epoch_numbers(), (std::vector<double>{1, 2}));
  EXPECT_EQ(run.by_epoch("/mining/spread")[0], 0.25);
  EXPECT_TRUE(std::isnan(run.by_epoch("/mining/spread")[1]));
  ASSERT_EQ(run.scores.size(), 3u);
  EXPECT_EQ(run.scores[0].scores.front(), 1);  // ascending, whatever the order of the file
  EXPECT_EQ(run.scores[1].name, "near");       // in the order of results.json
  EXPECT_EQ(*run.threshold, 3);
  EXPECT_EQ(run.mined.size() + run.test.size(), 2u);
}

TEST(RunReport, TheVerdictCountsAtTheDetectorsThreshold) {
  // 8 of 10 ID scores are at least 3; of near 0 of 4 are below, of far 2 of 4: rejected 0 and 50 %.
  EXPECT_EQ(verdict(RunFolder().read()),
            "At its threshold the detector keeps 80.0\u00a0% of the ID test images and rejects 25.0\u00a0% "
            "of the OOD "
            "images, the mean over 2 sets; worst on near, of which it rejects 0.0\u00a0%. It names the right "
            "class of "
            "87.5\u00a0% of the ID images.");
}

TEST(RunReport, ShowsTheNamesOfImagesAndTheClasses) {
  RunFolder folder;
  EXPECT_FALSE(has(folder.report(), "Confusion matrix"));
  folder.put_sheet("ood-as-id",
                   R"({"tile":2,"columns":8,"tiles":[{"set":"near","index":3,"name":"b<i>/3.png"}]})");
  folder.put_sheet("mined-0001", R"({"tile":2,"columns":8,"tiles":[{"index":3,"name":"c/4.png"}]})");
  const std::string sets = R"({"sets":{"far":{"fpr95":0.5,"auroc":0.7}},"id_accuracy":0.6,)";
  folder.put("results.json",
             sets + R"("classes":[{"name":"cat"},{"name":"d<o>g"}],"confusion":[[3,1],[1,0]]})");
  const std::string html = folder.report();
  for (const char* words : {"b\\u003ci>/3.png", "c/4.png", "Accuracy by class", "Confusion matrix",
                            "d&lt;o&gt;g (1)", "<td>75.00</td>", "<strong>3</strong>"})
    EXPECT_TRUE(has(html, words)) << words;
  EXPECT_FALSE(has(html, "d<o>g"));
  // What does not fit together is not shown.
  for (const char* classes :
       {R"("classes":[{"name":"cat"}],"confusion":[[3,1],[1,0]]})", R"("classes":3,"confusion":[]})",
        R"("classes":[{"name":"cat"},{}],"confusion":[[3,1],[1,0]]})",
        R"("classes":[{"name":"a"},{"name":"b"}],"confusion":[[3,1],[1]]})",
        R"("classes":[{"name":"a"},{"name":"b"}],"confusion":[[3,-1],[1,0]]})"}) {
    folder.put("results.json", sets + classes);
    EXPECT_FALSE(has(folder.report(), "Confusion matrix")) << classes;
  }
}

TEST(RunReport, WithoutScoresTheVerdictIsOfFpr95) {
  RunFolder folder;
  folder.remove("scores");
  const RunData run = folder.read();
  EXPECT_TRUE(has(joined(run.notes), "scores/id.npy is missing"));
  EXPECT_TRUE(run.scores.empty());
  EXPECT_TRUE(
      has(verdict(run),
          "keeps 95\u00a0% of the ID test images, the detector rejects 62.5\u00a0% of the OOD images"));
  EXPECT_TRUE(has(verdict(run), "worst on far, of which it rejects 50.0\u00a0%"));
}

TEST(RunReport, OneOfTheScoresMissingOrDamagedLeavesTheRest) {
  for (const char* damage : {"", "not npy", "\x93NUMPY\x01"}) {
    RunFolder folder;
    folder.remove("scores/far.npy");
    if (*damage != '\0') folder.put("scores/far.npy", damage);
    const RunData run = folder.read();
    ASSERT_EQ(run.scores.size(), 2u);
    EXPECT_EQ(run.scores[1].name, "near");
    EXPECT_TRUE(has(joined(run.notes), "scores/far.npy")) << joined(run.notes);
    EXPECT_TRUE(has(run_report(run), "Loss"));
  }
}

TEST(RunReport, PicturesAndAThresholdThatAreMissingAreNamed) {
  RunFolder folder;
  folder.remove("gallery");
  TensorFile detector;
  detector.metadata = {{"detector", "{}"}};
  write_safetensors(folder.path() + "/detector.safetensors", detector);
  const RunData run = folder.read();
  EXPECT_TRUE(has(joined(run.notes), "gallery/ is missing")) << joined(run.notes);
  EXPECT_TRUE(has(joined(run.notes), "has no threshold: data.validation")) << joined(run.notes);
}

TEST(RunReport, ARunThatGoesOnTellsHowFarItIs) {
  RunFolder folder;
  for (const char* name : {"results.json", "scores", "detector.safetensors"}) folder.remove(name);
  folder.put(
      "metrics.jsonl",
      "{\"epoch\":1,\"loss\":2.5,\"validation_accuracy\":0.5}\n{\"epo");  // the kill of a foreign writer
  const RunData run = folder.read();
  EXPECT_FALSE(run.finished());
  EXPECT_TRUE(has(joined(run.notes), "metrics.jsonl: line 2 is damaged."));
  EXPECT_EQ(
      verdict(run),
      "The run is not finished: 1 of 2 epochs done, no detector yet. There are no figures on test sets. It "
      "names the right class of 50.0\u00a0% of the held-out ID images.");
}

TEST(RunReport, OneThatIsNotFinishedSaysSoOnceAndHowToGoOn) {
  RunFolder folder;
  folder.remove("detector.safetensors");
  const std::string html = folder.report(), words = "not finished";
  const size_t first = html.find(words);
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(html.find(words, first + 1), std::string::npos);
  const std::string remedy = "continue it with: poem train --resume " + folder.path();
  EXPECT_TRUE(has(html, remedy));
  EXPECT_FALSE(has(RunFolder().report(), "--resume"));
  folder.put("config.yaml", "format: 9\ntrain: {epochs: 2}\n");  // resuming is refused
  EXPECT_FALSE(has(folder.report(), "--resume"));
}

TEST(RunReport, OneEpochIsNotCalledEpochs) {
  RunFolder folder;
  folder.put("metrics.jsonl", "{\"epoch\":1}\n");
  folder.put("config.yaml", "format: 1\ntrain: {epochs: 1}\n");
  EXPECT_TRUE(has(folder.report(), "1 epoch in "));
}

TEST(RunReport, WithADetectorItIsFinishedWhateverIsDamaged) {
  RunFolder folder;
  folder.put("metrics.jsonl", "{\"epoch\":1}\nnonsense\n");
  folder.put("detector.safetensors", "nonsense");
  const RunData run = folder.read();
  EXPECT_FALSE(has(run_report(run), "not finished"));
  for (const char* words :
       {"line 2 is damaged", "metrics.jsonl has only 1 of 2 epochs.", "detector.safetensors"})
    EXPECT_TRUE(has(joined(run.notes), words)) << words;
}

TEST(RunReport, FiguresFromTheMiddleOfTheTrainingAreMarkedAsSuch) {
  RunFolder folder;
  for (const char* name : {"results.json", "detector.safetensors"}) folder.remove(name);
  folder.put("metrics.jsonl",
             R"({"epoch":1,"results":{"sets":{"far":{"fpr95":0.5,"auroc":0.4}},"id_accuracy":null}})");
  const RunData run = folder.read();
  EXPECT_EQ(run.results_epoch, 1);
  EXPECT_TRUE(run.scores.empty());  // they would be of another moment
  for (const char* words : {"not finished", "rejects 50.0\u00a0% of the OOD images (far)",
                            "no better than chance", "After epoch 1, with a threshold"})
    EXPECT_TRUE(has(verdict(run), words)) << verdict(run);
}

TEST(RunReport, WithoutFiguresNoEpochIsNamed) {
  RunFolder folder;
  folder.remove("results.json");
  folder.put("metrics.jsonl", "{\"epoch\":1,\"results\":null}\n{\"epoch\":2,\"results\":null}\n");
  const RunData run = folder.read();
  EXPECT_FALSE(run.results);
  EXPECT_EQ(run.results_epoch, 0);
  EXPECT_FALSE(has(run_report(run), "after epoch"));
}

TEST(RunReport, WithoutOutliersThereIsNoRegularisationToShow) {
  RunFolder folder;
  const auto put = [&](const char* regularisation) {
    folder.put(
        "metrics.jsonl",
        fmt::format(R"({{"epoch":1,"loss":2,"classification_loss":2,"regularisation":{}}})", regularisation));
  };
  for (const char* none : {"0.0", "null"}) {
    put(none);
    EXPECT_FALSE(has(folder.report(), "Regularisation"));
    EXPECT_FALSE(has(folder.report(), "\"classification\""));
  }
  put("0.5");
  EXPECT_TRUE(has(folder.report(), "Regularisation"));
  EXPECT_TRUE(has(folder.report(), "\"classification\""));
}

TEST(RunReport, BoundaryScoresHaveTheSignOfTheLog) {
  RunFolder folder, other;
  folder.put("metrics.jsonl", R"({"epoch":1,"mining":{"mined_abs_logit":0.125,"pool_abs_logit":2.5}})");
  const std::string html = folder.report();
  for (const char* words : {"mean −|wᵀφ|", "[-0.125]", "[-2.5]"}) EXPECT_TRUE(has(html, words)) << words;
  EXPECT_TRUE(has(comparison({folder.read(), other.read()}), "[-0.125]"));
}

TEST(RunReport, LengthsAndClustersAreShownForMinersThatKnowThem) {
  RunFolder folder;
  folder.put("metrics.jsonl", R"({"epoch":1,"mining":{"mined_length":0.25,"mined_clusters":null}})");
  EXPECT_TRUE(has(folder.report(), "Length of the features"));
  EXPECT_FALSE(has(folder.report(), "Clusters of similar outliers"));
  folder.put("metrics.jsonl", R"({"epoch":1,"mining":{"mined_clusters":7.5,"pool_clusters":31.5}})");
  const std::string html = folder.report();
  for (const char* words : {"Clusters of similar outliers", "[7.5]", "[31.5]"})
    EXPECT_TRUE(has(html, words)) << words;
  EXPECT_FALSE(has(html, "Length of the features"));
}

TEST(RunReport, SharesOfSourcesAreShownIfThereAreSeveral) {
  const RunFolder folder;
  EXPECT_FALSE(has(folder.report(), "Sources of the mined set"));
  folder.put(
      "metrics.jsonl",
      R"({"epoch":1,"mining":{"sources":[{"name":"photos","pool":0.25,"mined":0.5},{"name":"world:outliers","pool":0.75,"mined":0.5}]}})"
      "\n"
      R"({"epoch":2,"mining":{"sources":[{"name":"photos","pool":0.25,"mined":0.375},{"name":"world:outliers","pool":0.75,"mined":0.625}]}})"
      "\n");
  folder.put_sheet("mined-0001", R"({"tile":2,"columns":8,"tiles":[{"index":3,"source":"photo folder"}]})");
  const std::string page = folder.report();
  EXPECT_TRUE(has(page, "Sources of the mined set"));
  EXPECT_TRUE(has(page, "photos (pool 25.0"));
  EXPECT_TRUE(has(page, "0.375"));
  EXPECT_TRUE(has(page, "photo folder"));
  for (const char* bad : {R"([1])", R"([{"name":1}])", R"({"a":1})", R"([{"name":"x","pool":"y"}])"}) {
    folder.put("metrics.jsonl", R"({"epoch":1,"mining":{"sources":)" + std::string(bad) + "}}\n");
    EXPECT_FALSE(has(folder.report(), "Sources of the mined set")) << bad;
  }
}

TEST(RunReport, AFolderHasItsNameHoweverItIsWritten) {
  RunFolder folder;
  RunData run = folder.read();
  const std::string name = run.name();
  EXPECT_EQ(name, fs::path(folder.path()).filename());
  for (const char* end : {"/", "/.", "//", "/scores/.."}) {
    run.folder = folder.path() + end;
    EXPECT_EQ(run.name(), name) << end;
  }
}

TEST(RunReport, AnotherFormatIsShownAsFarAsItIsUnderstood) {
  RunFolder folder;
  folder.put("config.yaml", "format: 9\nnew: {deep: {er: 1}}\ntrain: {epochs: 2}\n");
  const RunData run = folder.read();
  EXPECT_TRUE(has(joined(run.notes), "has format 9, but this poem knows format 1"));
  EXPECT_EQ(run.setting("new.deep.er"), "1");
  EXPECT_TRUE(has(run_report(run), "has format 9"));
}

TEST(RunReport, NothingInAGarbledFileStopsIt) {
  const std::string garbage = "\xff{[}:\t- \x01";
  for (const char* name :
       {"config.yaml", "metrics.jsonl", "results.json", "scores/id.npy", "detector.safetensors",
        "checkpoint/state.safetensors", "gallery/mined-0001.json", "gallery/ood-as-id.json"}) {
    for (const std::string& content :
         {garbage, std::string(), std::string("null"), std::string("[1,2]"), std::string("3"),
          std::string("{\"a\": 1}"), std::string("x: &a {y: *a}\n")}) {
      RunFolder folder;
      folder.put(name, content);
      const std::string html = folder.report();
      EXPECT_TRUE(has(html, "</html>")) << name;
    }
  }
}

TEST(RunReport, ValuesOfTheWrongKindLeaveGaps) {
  RunFolder folder;
  folder.put("metrics.jsonl",
             R"({"epoch":1,"loss":"high","mining":3,"seconds":[],"results":{"sets":[1]}})"
             "\n"
             R"({"epoch":2,"loss":1,"mining":{"classes":[1,{"name":2,"pool":"x"}]},"results":[]})");
  folder.put("results.json",
             R"({"sets":{"far":{"fpr95":"low","id_count":-1,"ood_count":1e300}},"id_accuracy":"good"})");
  folder.put("gallery/mined-0001.json", R"({"tile":2,"columns":8,"tiles":[7,{"class":5,"score":"x"}]})");
  const RunData run = folder.read();
  EXPECT_TRUE(std::isnan(run.by_epoch("/loss")[0]));
  EXPECT_TRUE(std::isnan(run.results->sets[0].metrics.fpr95));
  EXPECT_TRUE(has(run_report(run), "</html>"));
}

TEST(RunReport, HostileNamesStayText) {
  const std::string hostile = "</script><img src=x onerror=alert(1)><!-- '\\\"";
  const std::string quoted = nlohmann::json(hostile).dump();
  RunFolder folder;
  folder.put("config.yaml",
             "format: 1\nscore: " + quoted + "\nmining: {miner: " + quoted + "}\ntrain: {epochs: 2}\n");
  folder.put("metrics.jsonl",
             R"({"epoch":1,"mining":{"classes":[{"name":)" + quoted + R"(,"pool":1,"mined":1}]}})" + "\n");
  folder.put("results.json", R"({"sets":{)" + quoted + R"(:{"fpr95":0.5}}})");
  folder.put_sheet("ood-as-id", R"({"tile":2,"columns":8,"tiles":[{"set":)" + quoted + R"(,"predicted":)" +
                                    quoted + "}]}");
  const RunData run = folder.read();
  RunFolder other;
  for (const std::string& html : {run_report(run), comparison({run, other.read()})}) {
    EXPECT_FALSE(has(html, "<img"));
    EXPECT_FALSE(has(html, "<!--"));
    EXPECT_TRUE(has(html, "&lt;/script&gt;&lt;img"));
  }
}

TEST(RunReport, ShowsAtMostTwelveEpochsOfPicturesFirstAndLastAmongThem) {
  RunFolder folder;
  for (int epoch = 1; epoch <= 40; ++epoch)
    folder.put_sheet(fmt::format("mined-{:04}", epoch), R"({"tile":2,"columns":8,"tiles":[{}]})");
  const RunData run = folder.read();
  ASSERT_EQ(run.mined.size(), 12u);
  EXPECT_EQ(run.mined.front().name, "mined-0001");
  EXPECT_EQ(run.mined.back().name, "mined-0040");
}

TEST(RunReport, IsNotMadeOfSomethingElse) {
  TemporaryFolder folder;
  expect_error([&] { read_run(folder.path()); }, {folder.path(), "not a run", "folder of a training"});
  expect_error([&] { read_run(folder / "missing"); }, {"missing", "not a folder"});
}

TEST(RunReport, ReplacesReportsAndNothingElse) {
  RunFolder folder;
  const std::string path = report_path(folder.path());
  write_run_report(folder.path());
  const std::string first = read_file(path);
  EXPECT_EQ(first, folder.report());
  write_report(path, first, false);
  folder.put("letter.html", "<html>precious</html>");
  expect_error([&] { write_report(folder.path() + "/letter.html", first, false); },
               {"letter.html", "not a report", "option force"});
  EXPECT_EQ(read_file(folder.path() + "/letter.html"), "<html>precious</html>");
  write_report(folder.path() + "/letter.html", first, true);
  EXPECT_EQ(read_file(folder.path() + "/letter.html"), first);
  expect_error([&] { write_report(folder.path() + "/gone/x.html", first, false); },
               {"gone/x.html", "folder does not exist"});
  expect_error([&] { write_report(folder.path() + "/gallery", first, false); }, {"gallery", "is a folder"});
}

TEST(Comparison, RanksByMeanFpr95AndTellsTheConfigsApart) {
  RunFolder a, b;
  b.put("results.json", R"({"sets":{"far":{"fpr95":0.125},"near":{"fpr95":0.25}}})");
  b.put("config.yaml", "format: 1\nseed: 8\nscore: energy\nmining:\n  miner: random\ntrain:\n  epochs: 2\n");
  const std::string html = comparison({a.read(), b.read()});
  const std::string first = fs::path(a.path()).filename(), second = fs::path(b.path()).filename();
  EXPECT_TRUE(has(
      html, "Lowest mean FPR95: " + second + " with 18.75\u00a0%; then " + first + " with 37.50\u00a0%."));
  EXPECT_TRUE(has(html,
                  "<th scope=\"row\" class=\"text\">mining.miner</th><td class=\"text\">thompson</td><td "
                  "class=\"text\">random</td>"));
  EXPECT_TRUE(has(html, "<th scope=\"row\" class=\"text\">seed</th>"));
  EXPECT_FALSE(has(html, "<th scope=\"row\" class=\"text\">score</th>"));
  EXPECT_TRUE(has(html, "<th scope=\"row\" class=\"text\">far</th><td>50.00</td><td>12.50</td>"));
}

TEST(Comparison, DoesNotRankMeansOverDifferentSets) {
  RunFolder a, b, c;
  b.put("results.json", R"({"sets":{"far":{"fpr95":0.125},"other":{"fpr95":0.25}}})");
  c.remove("results.json");
  c.remove("metrics.jsonl");
  const std::string html = comparison({a.read(), b.read(), c.read()});
  EXPECT_TRUE(has(html, "The runs were tested on different sets, so their means cannot be compared."));
  EXPECT_FALSE(has(html, "Lowest mean FPR95"));
  EXPECT_TRUE(has(html, "<th scope=\"row\" class=\"text\">other</th><td>–</td><td>25.00</td>"));
  RunFolder same;
  EXPECT_TRUE(has(comparison({a.read(), same.read(), c.read()}), "Mean FPR95: "));
}

TEST(Comparison, RefusesARunBesideItself) {
  const RunFolder a, b;
  expect_error([&] { comparison({a.read(), b.read(), a.read()}); }, {a.path(), "named twice", "once"});
  expect_error(
      [&] {
        comparison({a.read(), read_run(a.path() + "/../" + a.name() + "/")});
      },
      {a.name(), "named twice"});
  const TemporaryFolder links;
  fs::create_directory_symlink(a.path(), links / "other");
  expect_error([&] { comparison({a.read(), read_run(links / "other")}); }, {links / "other", "named twice"});
}

TEST(Comparison, RunsThatLookTheSameAreLevel) {
  RunFolder a, b;
  EXPECT_TRUE(has(comparison({a.read(), b.read()}),
                  "Mean FPR95: " + a.name() + " and " + b.name() + " each with 37.50\u00a0%."));
  RunFolder c;
  c.put("results.json", R"({"sets":{"far":{"fpr95":0.125},"near":{"fpr95":0.25}}})");
  b.put("results.json",
        R"({"sets":{"far":{"fpr95":0.500000001},"near":{"fpr95":0.25}}})");  // prints the same
  EXPECT_TRUE(has(comparison({a.read(), b.read(), c.read()}),
                  "Lowest mean FPR95: " + c.name() + " with 18.75\u00a0%; then " + a.name() + " and " +
                      b.name() + " each with 37.50\u00a0%."));
}

TEST(Comparison, AKeyThatARunDoesNotRecordIsNoDifference) {
  RunFolder a, b;
  const std::string config =
      "format: 1\nseed: 7\nscore: energy\nmining:\n  miner: thompson\ntrain:\n  epochs: 2\n";
  b.put("config.yaml", config + "  batch: 64\nunknown: 3\n");  // the default, and a key without one
  const std::string same = comparison({a.read(), b.read()});
  EXPECT_TRUE(has(same, "The configs do not differ."));
  EXPECT_FALSE(has(same, "ot recorded"));
  b.put("config.yaml", config + "  batch: 32\n");
  const std::string other = comparison({a.read(), b.read()});
  EXPECT_TRUE(has(other,
                  "<th scope=\"row\" class=\"text\">train.batch</th><td class=\"text\">not recorded</td><td "
                  "class=\"text\">32</td>"));
  EXPECT_TRUE(has(other, "means that the run&#39;s config lacks the key"));
}

TEST(Comparison, CarriesTheScoresOfIdOnce) {
  RunFolder a, b;
  write_npy(b.path() + "/scores/id.npy", at::arange(20, 50, at::kFloat));
  const std::string html = comparison({a.read(), b.read()});
  const std::string scores = packed(b.read().scores[0].scores).at("float32");
  const size_t first = html.find(scores);
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(html.find(scores, first + 1), std::string::npos);
}

TEST(Comparison, SaysWhichRunIsNotFinished) {
  RunFolder a, b;
  b.remove("detector.safetensors");
  const std::string second = fs::path(b.path()).filename();
  EXPECT_TRUE(has(comparison({a.read(), b.read()}), second + ": not finished, 2 of 2 epochs done."));
}

TEST(Comparison, NamesTheEpochOfFiguresFromTheMiddle) {
  RunFolder a, b;
  b.remove("results.json");
  b.put("metrics.jsonl", R"({"epoch":1,"results":{"sets":{"far":{"fpr95":0.5},"near":{"fpr95":0.75}}}})");
  const std::string html = comparison({a.read(), b.read()});
  const std::string first = fs::path(a.path()).filename(), second = fs::path(b.path()).filename();
  EXPECT_TRUE(has(html, second + ": figures after epoch 1."));
  EXPECT_FALSE(has(html, first + ": figures after"));
}

TEST(Comparison, TakesRunsWithoutFigures) {
  RunFolder a, b;
  b.remove("results.json");
  b.remove("metrics.jsonl");
  const std::string html = comparison({a.read(), b.read()});
  EXPECT_TRUE(has(html, "nothing to rank"));
  EXPECT_TRUE(has(html, "metrics.jsonl is missing"));
}

}  // namespace
}  // namespace poem
