// The run folder: config.yaml, metrics.jsonl, events for TensorBoard, checkpoint/, detector.safetensors,
// results.json, results.csv, scores/ and gallery/ (docs/run-folder.md). Killed at any moment, a run resumes
// to the same result.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "poem/config.h"
#include "poem/fit.h"
#include "poem/results.h"

namespace poem {

struct RunOutcome {
  bool finished;                   // false: interrupted, the checkpoint is in the middle of an epoch
  std::optional<Results> results;  // where the config names test sets
};

// What of a config cannot be trained on this device and can be told before an image is read, which may take
// minutes: an Error.
void check_startable(const Config& config, at::Device device);

// Whether start_run() may have the folder: an Error if not. Touches nothing.
void check_run_folder(const std::string& folder, bool force);

// All that start_run() would stumble over before it trains, images included: an Error. Leaves nothing behind.
void rehearse_run(const Config& config, at::Device device);

// Starts a run in a new folder; an existing one is an Error unless `force`, which replaces a run but nothing
// else, and only once all inputs are read. An Error before the first checkpoint leaves no folder behind.
RunOutcome start_run(const Config& config, const std::string& folder, bool force, at::Device device);

// Goes on from the last checkpoint, or from the start if there is none yet. A folder that is no run, or one
// of another format, is an Error. A finished run is only evaluated again. `set` changes keys of the config as
// --set does: those of changeable_keys() (train/checkpoint.h), any other is an Error. With more train.epochs
// a finished run goes on too; detector and results are then made anew.
RunOutcome resume_run(const std::string& folder, at::Device device, const std::vector<std::string>& set = {});

// The detector of a finished run; also accepts the file itself.
std::string detector_path(const std::string& run_or_file);

// The ID images of a run, for fitting scores: read again as its config says.
IdImages load_id_images(const std::string& run);

}  // namespace poem
