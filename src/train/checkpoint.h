// A checkpoint: the trainer's state, its format, and what the bits of the result depend on.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "train/trainer.h"

namespace poem {

// The part of a config that the bits of a finished run depend on. The place of the images is not part of it,
// so that a run can move together with its data.
std::string config_text(Config config);

// Keys that may change while a run is stopped: no bit of what it has trained depends on them.
const std::vector<std::string>& changeable_keys();

// How many images of each kind there are.
nlohmann::json data_sizes(const TrainingData& data);

void write_checkpoint(const std::string& path, const Trainer& trainer, const TrainingData& data,
                      at::Device device);

// An Error if the file is damaged, of another format, or belongs to other data; a warning if threads,
// LibTorch, CPU capability or device differ from those it was written with, since bits may then differ.
void read_checkpoint(const std::string& path, Trainer& trainer, const TrainingData& data, at::Device device);

}  // namespace poem
