// Study files: what they say, which cells share a network, and what is refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "expect_error.h"
#include "flat_base.h"
#include "study/study.h"
#include "temporary_folder.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMethods = R"(
methods:
  - name: MSP
    set: {objective.name: cross_entropy, mining.miner: none}
    score: msp
  - name: Energy
    set: {objective: {name: cross_entropy}, mining: {miner: none}}
    score: energy
  - name: POEM
)";

class StudyFile : public ::testing::Test {
 protected:
  Study read(const std::string& text) const {
    folder.put("base.yaml", kFlatBase);
    folder.put("sub/study.yaml", "title: A study\nbase: ../base.yaml\n" + text);
    return read_study(folder / "sub/study.yaml");
  }
  StudyPlan plan(const std::string& text) const { return make_plan(read(text), {}); }
  void expect_refused(const std::string& text, std::vector<std::string> words) const {
    words.push_back("study.yaml");
    expect_error([&] { plan(text); }, words);
  }
  TemporaryFolder folder;
};

TEST_F(StudyFile, AGpuRepeatsItsBitsUnlessTheStudySaysOtherwise) {
  const auto deterministic = [&](const std::string& set, const char* device) {
    const Study study = read("seeds: [0]\n" + set + kMethods);
    return make_plan(study, {device}).networks.front().config.train.deterministic;
  };
  EXPECT_FALSE(deterministic("", "cpu"));  // it does so anyway
  EXPECT_TRUE(deterministic("", "cuda"));
  EXPECT_FALSE(deterministic("set: {train.deterministic: false}\n", "cuda"));
  EXPECT_FALSE(deterministic("settings:\n  - name: fast\n    set: {train.deterministic: false}\n", "cuda"));
}

TEST_F(StudyFile, CellsAreSeedsTimesSettingsTimesMethods) {
  const StudyPlan p =
      plan(std::string("seeds: [3, 5]\nset: {train.epochs: 7}\nsettings:\n  - name: a\n  - name: b\n"
                       "    set: {train: {epochs: 9}, data.ood: [x=world2d:ood:9]}") +
           kMethods);
  ASSERT_EQ(p.cells.size(), 2 * 2 * 3);
  const StudyCell& cell = p.cells[3 + 2];  // seed 3, setting b, POEM
  EXPECT_EQ(cell.seed, 3);
  EXPECT_EQ(cell.setting, 1);
  EXPECT_EQ(cell.method, 2);
  EXPECT_EQ(cell.config.seed, 3);
  EXPECT_EQ(cell.config.train.epochs, 9);
  EXPECT_EQ(cell.config.data.ood, std::vector<std::string>{"x=world2d:ood:9"});
  EXPECT_EQ(cell.config.mining.miner, "thompson");
  EXPECT_EQ(p.cells[0].config.train.epochs, 7);
  EXPECT_EQ(p.cells[0].config.score, "msp");
  EXPECT_EQ(p.cells[11].config.seed, 5);
}

TEST_F(StudyFile, ScoresAndTestSetsShareANetwork) {
  const std::string settings =
      "seeds: [0, 1]\nsettings:\n  - {name: a}\n  - {name: b, set: {data.ood: [x=world2d:ood:9]}}";
  const StudyPlan p = plan(settings + kMethods);
  EXPECT_EQ(p.networks.size(), 2 * 2);  // two seeds; with and without outliers
  EXPECT_EQ(p.cells[0].network, p.cells[1].network);
  EXPECT_EQ(p.cells[0].network, p.cells[3].network);
  EXPECT_NE(p.cells[0].network, p.cells[2].network);
  EXPECT_NE(p.cells[0].network, p.cells[6].network);
  std::set<std::string> names;
  for (const StudyNetwork& network : p.networks) {
    EXPECT_TRUE(network.config.data.test.empty());
    names.insert(network.name);
  }
  EXPECT_EQ(names.size(), p.networks.size());
}

// With them the score decides on what is trained.
TEST_F(StudyFile, MinersThatRankByTheScoreShareNoNetwork) {
  for (const std::string miner : {"greedy", "dos", "random"}) {
    const StudyPlan p = plan("seeds: [0]\nset: {objective.name: outlier_class, mining.miner: " + miner +
                             "}\nmethods: [{name: A, score: reject}, {name: B, score: energy}]");
    EXPECT_EQ(p.networks.size(), miner == "random" ? 1 : 2) << miner;
  }
}

TEST_F(StudyFile, ANetworksNameFollowsFromItsConfigAlone) {
  const auto name = [&](const std::string& text) { return plan("seeds: [0]" + text).networks[0].name; };
  const std::string poem = "\nmethods: [{name: POEM}]";
  const std::string usual = name(poem);
  EXPECT_EQ(usual.rfind("energy-thompson-seed0-", 0), 0) << usual;
  EXPECT_EQ(usual, name("\nmethods: [{name: renamed, score: msp}]"));
  EXPECT_EQ(usual, name("\nmethods: [{name: more, set: {data.ood: [a=world2d:ood:3]}}]"));
  EXPECT_EQ(usual, name("\nset: {train.epochs: 100}" + poem));  // the default
  EXPECT_NE(usual, name("\nset: {train.epochs: 99}" + poem));
  EXPECT_NE(usual, name("\nset: {data.train: 'world2d:train:61'}" + poem));
}

TEST_F(StudyFile, AWeightThatIsTheObjectivesOwnNeedNotBeSaid) {
  const auto name = [&](const std::string& objective) {
    return plan("seeds: [0]\nmethods: [{name: A, set: {objective: {" + objective + "}}}]").networks[0].name;
  };
  EXPECT_EQ(name("name: energy"), name("name: energy, beta: 0.1"));
  EXPECT_EQ(name("name: sofl"), name("name: sofl, beta: 5"));
  EXPECT_EQ(name("name: oe, beta: auto"), name("name: oe, beta: 0.5"));
  EXPECT_NE(name("name: oe"), name("name: oe, beta: 0.1"));
}

TEST_F(StudyFile, IsToldFromAConfig) {
  read(std::string("seeds: [0]") + kMethods);
  EXPECT_TRUE(is_study_file(folder / "sub/study.yaml"));
  EXPECT_FALSE(is_study_file(folder / "base.yaml"));
  folder.put("bad.yaml", "base: [");
  EXPECT_FALSE(is_study_file(folder / "bad.yaml"));
  expect_error([&] { is_study_file(folder / "none.yaml"); }, {"none.yaml", "cannot open"});
  expect_error([&] { read_study(folder / "base.yaml"); }, {"base.yaml", "not a study", "poem train"});
}

TEST_F(StudyFile, FiguresOfOtherConditionsAreOtherCells) {
  const auto names = [&](const std::string& set, const Conditions& conditions) {
    const StudyPlan p = make_plan(read("seeds: [0]" + set + "\nmethods: [{name: POEM}]"), conditions);
    return std::pair{p.networks[0].name, p.cells[0].tests};
  };
  const auto here = names("", {"cpu", 1}), gpu = names("", {"cuda", 1}), later = names("", {"cpu", 2});
  EXPECT_EQ(here, names("", {"cpu", 1}));
  EXPECT_NE(here.first, gpu.first);
  EXPECT_NE(here.first, later.first);
  EXPECT_NE(here.second, later.second);
  const std::string files = "\nset: {data: {train: a.npz, outliers: b.npz, test: c.npz, ood: [x=d.npz]}}";
  EXPECT_EQ(names(files, {"cpu", 1}), names(files, {"cpu", 2})) << "nothing is drawn";
  EXPECT_NE(names(files, {"cpu", 1}).first, names(files, {"cuda", 1}).first);
  const std::string mixed =
      "\nset: {data: {train: a.npz, outliers: [b.npz#share=0.3, world:outliers], test: c.npz, ood: "
      "[x=d.npz]}}";
  EXPECT_NE(names(mixed, {"cpu", 1}).first, names(mixed, {"cpu", 2}).first) << "a part is drawn";
  const std::string drawn_test = "\nset: {data: {train: a.npz, outliers: b.npz}}";
  EXPECT_EQ(names(drawn_test, {"cpu", 1}).first, names(drawn_test, {"cpu", 2}).first);
  EXPECT_NE(names(drawn_test, {"cpu", 1}).second, names(drawn_test, {"cpu", 2}).second);
}

TEST_F(StudyFile, SettingsInOtherFoldersAreScoredOnOtherImages) {
  const StudyPlan p = plan(std::string("seeds: [0]\nsettings:\n  - {name: a, set: {data.folder: a}}\n"
                                       "  - {name: b, set: {data.folder: b}}\n") +
                           kMethods);
  ASSERT_EQ(p.cells.size(), 6u);
  EXPECT_NE(p.cells[0].tests, p.cells[3].tests);
  EXPECT_EQ(p.cells[0].tests, p.cells[1].tests);
}

TEST_F(StudyFile, PaperFiguresBelongToSettings) {
  Study study = read("seeds: [0]\nmethods: [{name: A, paper: {fpr95: 2.5, ring.auroc: 99}}]");
  EXPECT_EQ(study.methods[0].paper[""]["fpr95"], 2.5);
  EXPECT_EQ(study.methods[0].paper[""]["ring.auroc"], 99);
  study = read("seeds: [0]\nsettings: [{name: a}, {name: b}]\nmethods: [{name: A, paper: {b: {fpr95: 4}}}]");
  EXPECT_EQ(study.methods[0].paper["b"]["fpr95"], 4);
  EXPECT_EQ(study.methods[0].paper.count("a"), 0);
}

TEST_F(StudyFile, WhatItDoesNotUnderstandIsRefused) {
  const std::string m = "\nmethods: [{name: A}]";
  expect_refused("seeds: [0]\nmethod: []", {"'method'", "nearest is 'methods'", ":4"});
  expect_refused("seeds: [0]", {"methods is missing"});
  expect_refused("seeds: [0]\nmethods: []", {"methods", "list"});
  expect_refused("seeds: []" + m, {"seeds", "list"});
  expect_refused("seeds: [0, 1, 0]" + m, {"seed 0", "twice"});
  expect_refused("seeds: [-1]" + m, {"seed -1", "negative"});
  expect_refused("seeds: [x]" + m, {"'x'", "whole number"});
  expect_refused("seeds: [0.5]" + m, {"'0.5'", "whole number"});
  expect_refused("seeds: [0]\nmethods: [{name: A}, {name: A}]", {"'A'", "twice"});
  expect_refused("seeds: [0]\nmethods: [{score: msp}]", {"name is missing"});
  expect_refused("seeds: [0]\nmethods: [{name: A, skore: msp}]", {"'skore'", "nearest is 'score'"});
  expect_refused("seeds: [0]\nmethods: [A]", {"not a map"});
  expect_refused("seeds: [0]\ncolumns: [fpr90]" + m, {":4", "fpr90", "nearest is 'fpr95'"});
  expect_refused("seeds: [0]\ncolumns: [fpr95, auroc, fpr95]" + m, {":4", "fpr95", "twice"});
  expect_refused("seeds: [0]\ncolumns: [ring.minutes]" + m, {"ring.minutes", "write minutes"});
  expect_refused("seeds: [0]\ncolumns: [rign.fpr95]" + m, {"A, seed 0", "rign.fpr95", "ring and far"});
  expect_refused("seeds: [0]\nmethods: [{name: A, paper: {fpr: 1}}]", {":4", "'fpr'", "fpr95"});
  expect_refused("seeds: [0]\nmethods: [{name: A, paper: {fpr95: low}}]", {"fpr95", "'low'"});
  expect_refused("seeds: [0]\nsettings: [{name: a}]\nmethods: [{name: A, paper: {fpr95: 1}}]",
                 {"setting 'fpr95'"});
  expect_refused("seeds: [0]\nset: {seed: 4}" + m, {"seed", "seeds"});
  expect_refused("seeds: [0]\ncurves: 0" + m, {"curves", "below 1"});
  expect_refused("seeds: [0\n" + m, {"not valid YAML"});
  expect_refused("seeds: [0]\nset: &x {data: *x}" + m, {":4", "anchor contains itself"});
  expect_refused("seeds: [0]" + m + "\n---\nseeds: [1]\n", {"second YAML document"});
}

TEST_F(StudyFile, ACellThatCannotRunIsNamed) {
  const std::string a = "seeds: [0]\nmethods:\n  - {name: A}\n  - {name: B, set: {";
  expect_refused(a + "objective.name: enrgy}}", {"B, seed 0", "'enrgy'", "nearest is 'energy'"});
  expect_refused(a + "mining.miner: grdy}}", {"B, seed 0", "'grdy'", "known"});
  expect_refused(a + "}, score: msb}", {"B, seed 0", "'msb'", "nearest is 'msp'"});
  expect_refused(a + "train.epoch: 3}}", {"B, seed 0", "train.epoch", "nearest is 'train.epochs'"});
  expect_refused(a + "train.epochs: 0}}", {"B, seed 0: set train.epochs=0: ", "out of range"});
  expect_refused(a + "epochs: 3}}",
                 {"B, seed 0: set epochs=3: ", "nearest are 'queue.epochs' and 'train.epochs'"});
  expect_refused(a + "data.outliers: }}", {"B, seed 0", "data.outliers is missing"});
  expect_refused(a + "data.test: , data.ood: []}}", {"B, seed 0", "data.test", "empty"});
  expect_refused(a + "data.ood: [x=world2d:ood:4, x=world2d:ood:5]}}", {"B, seed 0", "'x'", "twice"});
  expect_refused("settings: [{name: q, set: {train.drop: 2}}]\nseeds: [4]\nmethods: [{name: A}]",
                 {"A, q, seed 4", "train.drop"});
  folder.put("lost.yaml", "title: x\nbase: nowhere.yaml\nseeds: [0]\nmethods: [{name: A}]");
  expect_error([&] { make_plan(read_study(folder / "lost.yaml"), {}); },
               {"lost.yaml:2: base: ", "nowhere.yaml", "cannot open"});
  folder.put("wrong.yaml", "trian: {epochs: 3}");
  folder.put("lost.yaml", "title: x\nbase: wrong.yaml\nseeds: [0]\nmethods: [{name: A}]");
  expect_error([&] { read_study(folder / "lost.yaml"); },
               {"lost.yaml:2: base: ", "wrong.yaml:1: unknown key 'trian.epochs'"});
  expect_error([&] { read_study(folder / "none.yaml"); }, {"none.yaml"});
}

// What comes with poem: every file can be read, every cell has a config that is valid. Studies of the paper
// have five seeds on real images; those of the embedded world and those beyond the paper have three.
void check_study(const fs::path& file) {
  const Study study = read_study(file.string());
  const std::string name = file.stem().string();
  const bool beyond = name.rfind("map", 0) == 0 || name.rfind("default-", 0) == 0;
  EXPECT_EQ(study.seeds.size(), beyond || name.find("-demo") != std::string::npos ? 3 : 5);
  const StudyPlan plan = make_plan(study, {});
  EXPECT_EQ(plan.cells.size(), study.seeds.size() * study.settings.size() * study.methods.size());
  if (file.stem().string().rfind("table1-", 0) != 0) return;
  EXPECT_EQ(study.methods.size(), 11);
  EXPECT_EQ(plan.networks.size(), 8 * study.seeds.size());
  for (size_t row = 1; row < 4; ++row) EXPECT_EQ(plan.cells[row].network, plan.cells[0].network);
}

TEST(StudyConfigs, AllOfThemResolve) {
  int files = 0;
  for (const auto& entry :
       fs::directory_iterator(fs::path(__FILE__).parent_path().parent_path() / "configs/study")) {
    ++files;
    SCOPED_TRACE(entry.path().filename().string());
    try {
      check_study(entry.path());
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
  EXPECT_EQ(files, 20);
}

}  // namespace
}  // namespace poem
