#include "poem/config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "expect_error.h"
#include "temporary_folder.h"
#include "train/config_keys.h"

namespace poem {
namespace {

constexpr const char* kLeast = "data: {train: t, outliers: o}\n";

TEST(Config, WrittenItReadsBackEqual) {
  TemporaryFolder folder;
  folder.put("c.yaml", kLeast);
  const Config config =
      read_config(folder / "c.yaml", {"train.learning_rate=0.1", "train.weight_decay=1e-4",
                                      "data.ood=['a=x, y', b=z]", "data.test=t t", "seed=12"});
  EXPECT_EQ(config.seed, 12);
  EXPECT_EQ(config.data.ood, (std::vector<std::string>{"a=x, y", "b=z"}));
  folder.put("again.yaml", to_yaml(config));
  const Config again = read_config(folder / "again.yaml", {});
  EXPECT_EQ(to_yaml(again), to_yaml(config));
  EXPECT_EQ(again.train.weight_decay, 1e-4);
  EXPECT_EQ(again.data.ood, config.data.ood);
}

TEST(Config, EveryKeyBindsAVariableOfItsOwnWithAnAllowedDefault) {
  TemporaryFolder folder;
  Config config;
  config.data.train = "x";
  config.data.outliers = {"x"};
  std::set<std::string> names;
  for (const Key& key : keys(config)) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    EXPECT_FALSE(key.meaning.empty()) << key.name;
    EXPECT_NO_THROW(set_key(keys(config), key.name + "=" + value_text(key)));
  }
}

// Written as a number, so that a run says what it was trained with.
TEST(Config, TheWeightIsTheObjectivesOwnUnlessItIsGiven) {
  TemporaryFolder folder;
  folder.put("c.yaml", kLeast);
  const auto weight = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> set = {"objective.name=" + name, "mining.miner=random"};
    set.insert(set.end(), more.begin(), more.end());
    const Config config = read_config(folder / "c.yaml", set);
    folder.put("again.yaml", to_yaml(config));
    EXPECT_EQ(read_config(folder / "again.yaml", {}).objective.beta, config.objective.beta) << name;
    EXPECT_NE(to_yaml(config).find(fmt::format("  beta: {}\n", *config.objective.beta)), std::string::npos);
    return config.objective.beta.value();
  };
  Config defaults;
  const auto table = keys(defaults);
  const auto beta =
      std::find_if(table.begin(), table.end(), [](const Key& key) { return key.name == "objective.beta"; });
  const std::vector<std::pair<std::string, double>> published = {
      {"energy", 0.1}, {"oe", 0.5}, {"outlier_class", 1}, {"sofl", 5}};
  for (const auto& [name, own] : published) {
    EXPECT_EQ(weight(name, {}), own);
    EXPECT_EQ(weight(name, {"objective.beta=0.25"}), 0.25);
    EXPECT_EQ(weight(name, {"objective.beta=0"}), 0);
    EXPECT_EQ(weight(name, {"objective.beta=0.25", "objective.beta=auto"}), own);
    EXPECT_NE(beta->meaning.find(fmt::format("{} {}", name, own)), std::string::npos) << beta->meaning;
  }
}

TEST(Config, AnObjectiveWithoutAWeightRecordsNone) {
  TemporaryFolder folder;
  folder.put("c.yaml", std::string(kLeast) + "objective: {beta: 0.25}\n");
  for (const std::string name : {"cross_entropy", "ccu", "supcon"}) {
    const std::string miner = name == "ccu" ? "random" : "none";
    const Config config =
        read_config(folder / "c.yaml", {"objective.name=" + name, "mining.miner=" + miner, "score=msp"});
    EXPECT_FALSE(config.objective.beta) << name;
    EXPECT_NE(to_yaml(config).find("  beta: auto\n"), std::string::npos) << name;
  }
}

TEST(Config, InitialWeightsAreDrawnOrComeFromAFile) {
  struct Case {
    const char* text;
    Initialisation init;
    const char* weights;
  };
  for (const Case& c : {Case{"authors", Initialisation::kAuthors, ""}, Case{"he", Initialisation::kHe, ""},
                        Case{"a b/w.pth", Initialisation::kHe, "a b/w.pth"}}) {
    Config config;
    config.network.init = Initialisation::kAuthors;
    config.weights = "other.pth";
    set_key(keys(config), std::string("network.init=") + c.text);
    EXPECT_EQ(config.network.init, c.init) << c.text;
    EXPECT_EQ(config.weights, c.weights);
    const Config again = config_from(to_yaml(config), "c.yaml");
    EXPECT_EQ(again.network.init, c.init) << c.text;
    EXPECT_EQ(again.weights, c.weights);
  }
}

// The config is text in JSON, which knows UTF-8 only. data.folder is not: it may be the folder in which poem
// runs.
TEST(Config, TextsAreUtf8) {
  TemporaryFolder folder;
  folder.put("c.yaml", kLeast);
  const std::vector<std::string> words = {"is not UTF-8", "make a link with another name"};
  for (const std::string set :
       {"data.train=caf\xe9/t", "data.outliers=caf\xe9", "data.outliers=[o, caf\xe9/o.poem]",
        "data.ood=[a=\xff]", "network.init=\xc3.pth"}) {
    const std::string key = set.substr(0, set.find('='));
    expect_error([&] { read_config(folder / "c.yaml", {set}); }, {key, words[0], words[1]});
  }
  folder.put("c.yaml", "data: {train: t, outliers: caf\xe9}\n");
  expect_error([&] { read_config(folder / "c.yaml", {}); }, {"data.outliers", words[0]});
  folder.put("c.yaml", "# caf\xe9\ndata: {folder: caf\xe9, train: caf\xc3\xa9, outliers: o}\n");
  EXPECT_EQ(read_config(folder / "c.yaml", {}).data.train, "caf\xc3\xa9");
}

TEST(Config, WhatDoesNotFitTogetherIsAnError) {
  TemporaryFolder folder;
  const auto expect = [&](const std::string& yaml, const std::vector<std::string>& set,
                          const std::vector<std::string>& words) {
    folder.put("c.yaml", yaml);
    expect_error([&] { read_config(folder / "c.yaml", set); }, words);
  };
  expect("seed: 1\n", {}, {"c.yaml", "data.train is missing"});
  expect("data: {train: t}\n", {}, {"data.outliers is missing", "mining.miner: none"});
  expect(kLeast, {"data.test=t"}, {"data.ood is missing"});
  expect(kLeast, {"format=2"}, {"format 2"});
  expect(kLeast, {"network.std=[1, 1]"}, {"network.mean and network.std"});
  expect(kLeast, {"network.std=[1, 0, 1]"}, {"network.std", "0", "1e-06"});
  expect(kLeast, {"network.std=[1, -1, 1]"}, {"network.std", "-1"});
  expect(kLeast, {"train.milestones=[0.5, 0.5]"}, {"train.milestones do not ascend"});
  expect(kLeast, {"train.freeze=backbone"}, {"train.freeze", "random", "network.init"});
  expect(kLeast, {"train.freeze=backbone", "network.init=w.pth", "train.backbone_rate=0.1"},
         {"train.backbone_rate has no effect", "train.freeze"});
  expect(kLeast, {"outliers.filters=[]"}, {"outliers.filters is empty", "area"});
  expect(kLeast, {"outliers.filters=[area, lanzcos]"}, {"'lanzcos'", "nearest is 'lanczos'", "piece"});
  for (const std::string miner : {"greedy", "dos"})
    expect(kLeast, {"mining.miner=" + miner, "score=knn"}, {"mining.miner " + miner, "knn", "reject_energy"});
  for (const char* idle : {"mining.skip=0.1", "mining.random=0.5", "mining.random=1"})
    expect(kLeast, {"mining.miner=random", idle},
           {"mining.skip and mining.random", "no effect", "leave them out"});
  expect(kLeast, {"mining.random=1"},
         {"mining.random is 1", "mining.miner thompson", "mining.miner: random"});
  const std::string few = "mining.candidates=0.2";
  expect(kLeast, {"mining.candidates=1.5"}, {"mining.candidates", "1.5", "0 … 1"});
  for (const std::string miner : {"random", "dos", "diverse"})
    expect(kLeast, {few, "mining.miner=" + miner, "score=energy"},
           {"mining.candidates is 0.2", "mining.miner " + miner, "thompson, mean, greedy or logit"});
  expect(kLeast, {few, "network.name=mlp"}, {"mining.candidates is 0.2", "network.name mlp", "one size"});
  expect(kLeast, {few, "objective.name=ccu"}, {"mining.candidates is 0.2", "objective.name ccu", "one size"});
  expect(kLeast, {few, "data.size=7"}, {"mining.candidates is 0.2", "7×7", "data.size to 8"});
  folder.put("c.yaml", kLeast);
  EXPECT_EQ(read_config(folder / "c.yaml", {few}).mining.candidates, 0.2);
  folder.put("c.yaml", "data: {train: t}\n");
  EXPECT_TRUE(read_config(folder / "c.yaml", {"mining.miner=none"}).data.outliers.empty());
  read_config(folder / "c.yaml",
              {"mining.miner=none", "mining.random=1", "mining.skip=0.1"});  // of any config
}

}  // namespace
}  // namespace poem
