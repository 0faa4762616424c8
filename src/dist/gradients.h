// Sums gradients over a team while the backward pass still computes others.
//
//   GradientSum gradients(team, leaves);
//   loss.backward();      // a bucket of gradients is sent as soon as it is complete
//   gradients.finish();   // now each leaf's gradient is the sum over the ranks
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "dist/team.h"

namespace poem {

class GradientSum {
 public:
  // `leaves` in the order in which the forward pass uses them: the backward pass reaches the last first.
  GradientSum(const Team& team, std::vector<at::Tensor> leaves);
  ~GradientSum();
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  void finish();

 private:
  struct Buckets;
  std::unique_ptr<Buckets> buckets_;  // null in a team of one
};

}  // namespace poem
