// The contents of a run folder, as far as they can be read. A run may be in progress, incomplete, or of
// another version: notes say what is missing or damaged, and the rest is available.
//
//   RunData run = read_run("runs/demo/poem");
//   for (const std::string& note : run.notes) …
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "poem/calibration.h"
#include "poem/results.h"

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
  std::vector<std::string> notes;  // sentences about what is missing or damaged

  std::string config_text;
  std::vector<std::pair<std::string, std::string>> config;  // every key with its value as text
  std::vector<nlohmann::json> epochs;                       // the lines of metrics.jsonl
  std::optional<Results> results;
  int64_t results_epoch = 0;               // the epoch of the results; 0: the end of the run
  std::vector<NamedScores> scores;         // ID test images first, then at least one OOD set; or empty
  std::optional<double> threshold;         // the detector's
  std::optional<Calibration> calibration;  // what the threshold rests on, if that is known
  bool has_detector = false;               // perhaps a damaged one
  std::vector<Sheet> mined, test;          // by epoch; by name
  std::vector<std::pair<std::string, std::string>> surroundings;  // version and machine

  std::string name() const;                           // the last component of the folder
  std::string setting(const std::string& key) const;  // of the config; empty if it is unknown
  int64_t planned_epochs() const;                     // 0 if the number is unknown
  bool finished() const { return has_detector; }      // training writes the detector last
  std::string progress() const;                       // "3 of 10 epochs done"

  // A figure of every epoch, given by its JSON pointer ("/mining/spread"), times the factor; NaN if an epoch
  // has none.
  std::vector<double> by_epoch(const std::string& pointer, double factor = 1) const;
  std::vector<double> epoch_numbers() const;
};

// A folder that contains nothing of a run is an Error.
RunData read_run(const std::string& folder);

// Every key of a config with its value as text, as in RunData::config.
std::vector<std::pair<std::string, std::string>> config_entries(const std::string& yaml);

}  // namespace poem
