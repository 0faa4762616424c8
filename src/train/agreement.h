// Whether all ranks of a team are about to do the same.
//
//   check_agreement(trainer, data);   // an Error that names a rank, and what it has other than rank 0
#pragma once
#include "train/data.h"
#include "train/trainer.h"

namespace poem {

// Compares poem, LibTorch, what the CPU can do, the config, the images and where the training stands.
void check_agreement(const Trainer& trainer, const TrainingData& data);

}  // namespace poem
