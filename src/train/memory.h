// Whether this computer has room for what a config asks for: an Error names the key and both numbers. If
// several processes train together, all of this computer must have room. (What a GPU needs is asked by
// train/gpu_memory.h.)
//
//   check_memory(config, network);                  // before an image is read
//   check_drawing_memory(config, outliers);         // when the numbers of images are known
//   check_step_memory(config, network, id_images);
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "images/mixture.h"
#include "poem/config.h"
#include "poem/network.h"

namespace poem {

// Those that train together.
struct Processes {
  int all = 1, here = 1;  // here: on this computer
};

// Pool, queue, parameters and blocks of features; `network`: one such as the config asks for, its shapes
// suffice.
void check_memory(const Config& config, const Network& network, const Processes& processes = {});

// The pool, when it is known how many images it is drawn from; and what worlds that are drawn on demand
// (poem/read.h) can take in a whole run.
void check_drawing_memory(const Config& config, const Mixture& outliers, const Processes& processes = {});

// A train step on the CPU, `id_images` being those that are trained on.
void check_step_memory(const Config& config, const NetworkSpec& spec, int64_t id_images,
                       const Processes& processes = {});

// What one source gives to a pool: crops of so many images; 0: of a number that is not known.
struct PoolPart {
  double crops = 0, images = 0;
};

// How a miner goes through a pool.
struct PoolScoring {
  bool features = true;    // it asks for features
  bool shared = true;      // each process scores a part; otherwise each scores all of it
  bool posterior = false;  // it draws from the posterior
  double candidates = 1;   // mining.candidates
};
PoolScoring scoring_of(const MiningSettings& settings);

// The most bytes that the pool of an epoch takes at once in one of so many processes and on its device: its
// crops, while they are drawn and while they are scored. Features are not counted.
double pool_bytes(const std::vector<PoolPart>& parts, const PoolScoring& scoring, double processes);

// The most bytes that tensors of this thread take at once, beyond those there are, while `work` runs.
int64_t peak_bytes(const std::function<void()>& work);

}  // namespace poem
