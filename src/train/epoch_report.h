// The figures of an epoch, and the same as JSON: a line of metrics.jsonl, and what a checkpoint keeps of an
// unfinished epoch.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "poem/mining.h"

namespace poem {

struct EpochReport {
  int64_t epoch = 0;         // counted from 1
  double learning_rate = 0;  // of the last step
  double loss = 0, classification_loss = 0, regularisation = 0;
  double id_energy = 0;
  std::optional<double> outlier_energy;
  std::optional<double> train_accuracy;  // and the next: empty if the network does not classify
  std::optional<double> validation_accuracy;
  std::optional<MiningDiagnostics> mining;  // empty if no outliers were mined in this epoch
  double mine_seconds = 0, train_seconds = 0, queue_seconds = 0;
};

nlohmann::json to_json(const EpochReport& report);
nlohmann::json to_json(const MiningDiagnostics& diagnostics);
MiningDiagnostics diagnostics_from(const nlohmann::json& json);

// What a person reads of it, and the epoch's line in the log.
std::string figures_text(const EpochReport& report);
std::string to_text(const EpochReport& report, int64_t epochs);

}  // namespace poem
