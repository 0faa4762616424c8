// BatchNorm with the statistics of a batch that is spread over a team.
//
//   const GlobalBatchNorm global(team);   // while it lives, in this thread
//   network.features(own_images);         // normalised with the statistics of all ranks' images
#pragma once
#include <ATen/core/Tensor.h>

#include "dist/team.h"

namespace poem {

class GlobalBatchNorm {
 public:
  explicit GlobalBatchNorm(Team team);  // a team of one changes nothing
  ~GlobalBatchNorm();
  GlobalBatchNorm(const GlobalBatchNorm&) = delete;
  GlobalBatchNorm& operator=(const GlobalBatchNorm&) = delete;

  static const Team* team();  // of the one that lives; else null

 private:
  const Team team_;
  const Team* const before_;
};

// As at::batch_norm in training, n×C×…, with the statistics over the team. A rank may have no rows.
at::Tensor batch_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const at::Tensor& running_mean, const at::Tensor& running_var, double momentum,
                      double epsilon, const Team& team);

}  // namespace poem
