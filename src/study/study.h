// A study: methods × settings × seeds in one YAML file (docs/studies.md), and the networks that it needs.
//
//   const Study study = read_study("configs/study/table1-demo.yaml");
//   const StudyPlan plan = make_plan(study, {"cpu"});  // every config is read and checked here
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "poem/config.h"
#include "world/world.h"

namespace poem {

// A column of the table: a figure of one OOD set, or its mean over all sets.
struct StudyColumn {
  std::string key;     // "fpr95" or "svhn.fpr95"
  std::string set;     // empty: the mean
  std::string figure;  // "fpr95"
  std::string title;   // "FPR95", "svhn FPR95"
  bool lower_is_better;
};
StudyColumn study_column(const std::string& key);  // an unknown figure is an Error that lists the known ones

// Overrides are "key=value", as in --set; a method's overrides are applied after a setting's.
struct StudySetting {
  std::string name;
  std::vector<std::string> set;
};

struct StudyMethod {
  std::string name;
  std::vector<std::string> set;
  std::map<std::string, std::map<std::string, double>> paper;  // setting → column → figure, in percent
};

struct Study {
  std::string path, title, base;
  std::vector<int64_t> seeds;
  std::vector<std::string> set;
  std::vector<StudySetting> settings;  // one without a name if the file has none
  std::vector<StudyMethod> methods;
  std::vector<StudyColumn> columns;
  int64_t curves = 0;  // epochs between evaluations during training; 0: no evaluation
};

bool is_study_file(const std::string& path);  // whether the YAML file is a study, not a training's config

// An Error names the file, the line or method, and what is wrong.
Study read_study(const std::string& path);

// One training. Cells share a network if they differ in nothing that affects the weights.
struct StudyNetwork {
  std::string name;  // of its folder: objective, miner, seed, and a hash of the conditions and of all values
                     // that are not default
  Config config;
};

struct StudyCell {
  size_t setting, method, network;
  int64_t seed;
  Config config;      // with the score and the test sets of this cell
  std::string tests;  // a hash of its test sets
};

struct StudyPlan {
  std::vector<StudyNetwork> networks;
  std::vector<StudyCell> cells;  // by seed, then setting, then method
};

// What figures depend on besides the file. Figures of other conditions are never used for a cell.
struct Conditions {
  std::string device = "cpu";
  int world = kWorldVersion;  // matters only if images are drawn
};

// Reads only the configs. An Error names the cell.
StudyPlan make_plan(const Study& study, const Conditions& conditions);

// "POEM, CIFAR-10, seed 0"
std::string cell_name(const Study& study, size_t setting, size_t method, int64_t seed);
std::string cell_name(const Study& study, const StudyCell& cell);

// The part of a network's config that its weights depend on, as text; with curves also the evaluation.
std::string training_text(const Study& study, const Config& config);

}  // namespace poem
