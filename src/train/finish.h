// What a training ends with: its detector, and the results of the test sets.
#pragma once
#include <optional>

#include "poem/config.h"
#include "poem/detector.h"
#include "poem/evaluate.h"
#include "poem/fit.h"
#include "poem/results.h"
#include "train/data.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace poem {

// The images that the network trains on, and those held out.
IdImages split_images(const TrainingData& data);

// ID images held out of training give the threshold, which keeps as many of them as threshold.tpr says.
Detector make_detector(const Config& config, const TrainingData& data, const Trainer& trainer);

// Before the training: a threshold from few images is worth little.
void warn_of_few_held_out(const Config& config, const TrainingData& data);

// Writes scores, results and detector.
std::optional<Results> finish_run(const RunFolder& folder, const Detector& detector,
                                  const std::optional<TestData>& test);

}  // namespace poem
