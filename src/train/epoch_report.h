// The figures of an epoch, and the same as JSON: a line of metrics.jsonl, and what a checkpoint keeps of an
// unfinished epoch.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "poem/mining.h"

namespace poem {

// What a part of an epoch cost this rank.
struct Effort {
  double seconds = 0;  // all of them
  double waited = 0;   // seconds of these in which it waited for other ranks
  int64_t bytes = 0;   // that it sent to them
};

// What several processes did in an epoch.
struct TeamReport {
  int64_t mine_bytes = 0, train_bytes = 0, queue_bytes = 0;  // that rank 0 sent; the others sent as much
  std::vector<double> seconds;                               // of work per rank, waiting not included
};

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
  std::optional<TeamReport> team;  // empty for one process
};

nlohmann::json to_json(const EpochReport& report);
nlohmann::json to_json(const MiningDiagnostics& diagnostics);
MiningDiagnostics diagnostics_from(const nlohmann::json& json);

// What a person reads of it, and the epoch's line in the log.
std::string figures_text(const EpochReport& report);
std::string to_text(const EpochReport& report, int64_t epochs);

}  // namespace poem
