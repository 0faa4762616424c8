// An epoch's figures as JSON: a line of metrics.jsonl, and what a checkpoint keeps of an unfinished epoch.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "train/trainer.h"

namespace poem {

nlohmann::json to_json(const EpochReport& report);
nlohmann::json to_json(const MiningDiagnostics& diagnostics);
MiningDiagnostics diagnostics_from(const nlohmann::json& json);

// The line that a person reads.
std::string to_text(const EpochReport& report, int64_t epochs);

}  // namespace poem
