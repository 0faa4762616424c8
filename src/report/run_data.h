// What a run folder holds, as far as it can be read. A run may still go on, have been cut short, or be of
// another version: what is missing or makes no sense is noted, and the rest is there.
//
//   RunData run = read_run("runs/demo/poem");
//   for (const std::string& note : run.notes) …
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "detect/calibration.h"
#include "detect/results.h"

namespace poem {

struct NamedScores {
  std::string name;
  std::vector<float> scores;  // ascending
};

// A contact sheet of gallery/.
struct Sheet {
  std::string name, png;
  nlohmann::json list;  // {"tile": side, "columns": n, "tiles": [{"class": …, …}]}
};

struct RunData {
  std::string folder;
  std::vector<std::string> notes;  // what is missing, in words

  std::string config_text;
  std::vector<std::pair<std::string, std::string>> config;  // every key with its value as text
  std::vector<nlohmann::json> epochs;                       // the lines of metrics.jsonl
  std::optional<Results> results;
  int64_t results_epoch = 0;        // the epoch after which the results were taken; 0: the end of the run
  std::vector<NamedScores> scores;  // ID test images first, then at least one OOD set; or none
  std::optional<double> threshold;  // the detector's
  std::optional<Calibration> calibration;                         // what it rests on, where that is known
  bool has_detector = false;                                      // maybe a damaged one
  std::vector<Sheet> mined, test;                                 // by epoch; by name
  std::vector<std::pair<std::string, std::string>> surroundings;  // version and machine

  std::string name() const;                           // the folder's own
  std::string setting(const std::string& key) const;  // of the config, empty where it is unknown
  int64_t planned_epochs() const;                     // 0 where it is unknown
  bool finished() const { return has_detector; }      // training writes it last
  std::string progress() const;                       // "3 of 10 epochs done"

  // A figure of every epoch by its JSON pointer, as in "/mining/spread", times the factor; NaN where there is
  // none.
  std::vector<double> by_epoch(const std::string& pointer, double factor = 1) const;
  std::vector<double> epoch_numbers() const;
};

// A folder that holds nothing of a run is an Error.
RunData read_run(const std::string& folder);

// Every key of a config with its value as text, as RunData::config has them.
std::vector<std::pair<std::string, std::string>> config_entries(const std::string& yaml);

}  // namespace poem
