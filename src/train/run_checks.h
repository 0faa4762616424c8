// What can be said against a run before it trains. Each throws an Error.
//
//   check_startable(config, device);   // takes seconds
//   rehearse_run(config, device);      // reads all images, too
#pragma once
#include <c10/core/Device.h>

#include <string>

#include "poem/config.h"
#include "train/memory.h"

namespace poem {

class Trainer;
struct TrainingData;

// What is known before an image is read: sources, network, score, precision, memory.
void check_startable(const Config& config, c10::Device device, const Processes& processes = {});

// Whether start_run() may use the folder. Changes nothing.
void check_run_folder(const std::string& folder, bool force);

// Everything that start_run() does before it trains. Leaves nothing behind.
void rehearse_run(const Config& config, c10::Device device);

// Whether the config's score can be fitted to this training.
void check_score(const Config& config, const TrainingData& data, const Trainer& trainer);

}  // namespace poem
