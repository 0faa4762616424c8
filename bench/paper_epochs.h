// Epochs of the paper's setting, to be timed: DenseNet-BC-100-12, 64 + 64 images per step, a pool of 400,000
// crops of which 50,000 are mined, a queue of 4 epochs. The images are random, which does not affect the
// time.
//
//   const double common = run_paper_epochs({"fresh", 6}, device, [](const EpochReport& report) { … });
#pragma once
#include <functional>
#include <string>

#include "train/trainer.h"

namespace poem::bench {

struct PaperEpochs {
  std::string queue;  // fresh or stored
  int64_t epochs;
  bool deterministic = false;
  double average = 0;  // train.average
};

// Calls `report` after every epoch. Then scores a pool in bfloat16 and in float32, with w drawn from a
// posterior of the trained network, and returns the share of the best eighth that both have in common.
double run_paper_epochs(const PaperEpochs& settings, at::Device device,
                        const std::function<void(const EpochReport&)>& report);

// Images that pass through the network in the phases of an epoch; epochs count from 1.
struct PhaseImages {
  double scored, trained, queued;
};
PhaseImages paper_images(const PaperEpochs& settings, int64_t epoch);

}  // namespace poem::bench
