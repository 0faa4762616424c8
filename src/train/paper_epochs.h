// Epochs of the paper's setting, to be timed: DenseNet-BC-100-12, 64 + 64 images a step, a pool of 400,000
// crops of which 50,000 are mined, a queue of 4 epochs. Images are random, which changes no time.
//
//   const double common = run_paper_epochs({"fresh", 6, false}, device, [](const EpochReport& report) { … });
#pragma once
#include <functional>
#include <string>

#include "train/trainer.h"

namespace poem {

struct PaperEpochs {
  std::string queue;  // fresh or stored
  int64_t epochs;
  bool deterministic;
};

// Calls `report` after every epoch. Returns the share of a pool's best eighth that bfloat16 and float32
// scoring have in common, with w drawn from a posterior of the network trained.
double run_paper_epochs(const PaperEpochs& settings, at::Device device,
                        const std::function<void(const EpochReport&)>& report);

// Images that go through the network in the phases of an epoch, counted from 1.
struct PhaseImages {
  double scored, trained, queued;
};
PhaseImages paper_images(const PaperEpochs& settings, int64_t epoch);

}  // namespace poem
