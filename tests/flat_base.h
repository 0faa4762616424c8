// A config that takes no time: the two-dimensional world and a perceptron, with two OOD sets.
#pragma once

namespace poem {

constexpr const char* kFlatBase = R"(
data:
  train: world2d:train:60
  test: world2d:test:30
  outliers: world2d:outliers:60
  ood: [ring=world2d:ood:20, far=world2d:ood:20:1]
  size: 1
network: {name: mlp, mean: [0, 0], std: [1, 1]}
mining: {pool: 60, select: 30}
)";

}  // namespace poem
