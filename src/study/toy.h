// The paper's two-dimensional example (Figures 1 and 2b): what POEM mines and learns on the world2d points,
// epoch by epoch. It uses the same Trainer as any other run.
//
//   const Toy toy = run_toy(toy_config(seed), device);
//   toy.epochs[29].mined;  // N×2: the outliers of epoch 30
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

#include "poem/config.h"

namespace poem {

// Networks are evaluated at the centres of kToySide × kToySide cells that fill [−kToyReach, kToyReach]².
constexpr int64_t kToySide = 80;
constexpr double kToyReach = 6;
at::Tensor toy_grid();  // kToySide² × 2 float32 from the lower left corner; x varies fastest

struct ToyEpoch {
  at::Tensor mined;  // N×2 float32
  // The belief f(x) = E[w]ᵀφ(x) at the start of the epoch. The epoch mines the outliers nearest to f = 0 for
  // a draw of w around E[w]. In the first epoch the belief is that of the prior, 0 everywhere.
  at::Tensor grid_logit, id_logit, outlier_logit;  // of the grid, of all ID points, of all outliers
  // The classifier after the epoch: −E(x) on the grid. A point counts as ID if it reaches the threshold,
  // which keeps 95 % of the held-out ID points.
  at::Tensor grid_score;
  double threshold;
};

struct Toy {
  Config config;
  at::Tensor id, labels, outliers;  // n×2, n, n×2
  at::Tensor max_softmax;           // on the grid, from the network trained without outliers
  std::vector<ToyEpoch> epochs;
};

Config toy_config(int64_t seed);
Toy run_toy(const Config& config, at::Device device);  // Ctrl-C throws Interrupted

}  // namespace poem
