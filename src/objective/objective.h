// What training minimises, on the logits of one mixed batch of ID images and outliers.
//
//   auto objective = make_objective(settings);
//   Loss loss = (*objective)(id_logits, labels, outlier_logits);
//   loss.total.backward();
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace poem {

struct ObjectiveSettings {
  std::string name = "energy";
  double beta = 0.1;  // weight of L_reg
  double m_in = -25;  // ID energies above it are penalised (the paper's text has the two margins swapped)
  double m_out = -7;  // outlier energies below it are penalised
};

struct Loss {
  at::Tensor total;           // scalar, with gradient
  at::Tensor classification;  // scalar: cross-entropy on ID
  at::Tensor regularisation;  // scalar: L_reg, before its weight
};

class Objective {
 public:
  virtual ~Objective() = default;
  // Must not wait for the device (no item(), no sizes that depend on values): a step is recorded
  // (train/replay.h). id_logits n×K, labels int64 n, outlier_logits k×K (k = 0 where there are none).
  virtual Loss operator()(const at::Tensor& id_logits, const at::Tensor& labels,
                          const at::Tensor& outlier_logits) const = 0;
};

std::unique_ptr<Objective> make_objective(const ObjectiveSettings& settings);
std::vector<std::string> objective_names();

// E(x) = −log Σ exp(logits), one a row.
at::Tensor energy(const at::Tensor& logits);

}  // namespace poem
