// An epoch's figures as JSON: a line of metrics.jsonl, and what a checkpoint keeps of an unfinished epoch.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "train/trainer.h"

namespace poem {

nlohmann::json to_json(const EpochReport& report);
nlohmann::json to_json(const MiningDiagnostics& diagnostics);
MiningDiagnostics diagnostics_from(const nlohmann::json& json);

// What a person reads of it, and the epoch's line in the log.
std::string figures_text(const EpochReport& report);
std::string to_text(const EpochReport& report, int64_t epochs);

}  // namespace poem
