// Trains detectors. A training is a run: a folder with the config, figures of every epoch, a checkpoint, the
// detector and its results (docs/run-folder.md). A run that was killed at any moment can be resumed. On the
// CPU it then ends in the same bits as a run that was never stopped.
//
//   const Config config = read_config("my.yaml", {"train.epochs=10"});
//   const RunOutcome outcome = start_run(config, "runs/mine", /*force=*/false, pick_device("auto"));
//   if (outcome.results) std::cout << to_table(*outcome.results);
//   const Detector detector = Detector::load(detector_path("runs/mine"));
//
// Calls block until the training has ended. They log progress through spdlog's default logger.
#pragma once
#include <c10/core/Device.h>

#include <optional>
#include <string>
#include <vector>

#include "poem/config.h"
#include "poem/fit.h"
#include "poem/results.h"

namespace poem {

struct RunOutcome {
  bool finished;                   // false: the program caught a signal and stopped; resume_run() continues
  std::optional<Results> results;  // if the config names test sets
};

// Starts a run in a new folder. A folder that exists is an Error, unless `force` is true and it contains a
// run and nothing else: it is then replaced once all inputs were read. An Error before the first checkpoint
// leaves no folder behind.
RunOutcome start_run(const Config& config, const std::string& folder, bool force, c10::Device device);

// Continues from the last checkpoint, or from the beginning if there is none yet. A finished run is only
// evaluated again. A folder that is not a run is an Error. `set` assigns keys of the config as "KEY=VALUE";
// only train.epochs, train.evaluate_every, threshold.tpr and data.folder can change. With more train.epochs a
// finished run continues, too, and its detector and results are replaced.
RunOutcome resume_run(const std::string& folder, c10::Device device,
                      const std::vector<std::string>& set = {});

// The path of a finished run's detector. The path of the file itself is also accepted.
std::string detector_path(const std::string& run_or_file);

// The ID images of a run, read again as its config says. Scores are fitted on them (poem/fit.h).
IdImages load_id_images(const std::string& run);

}  // namespace poem
