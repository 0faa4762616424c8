// What training minimises, on the logits of one mixed batch of ID images and outliers.
//
//   auto objective = make_objective(settings);
//   spec.classes = objective->outputs(class_count);
//   Loss loss = (*objective)(id_logits, labels, outlier_logits, chance);
//   loss.total.backward();
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace poem {

struct ObjectiveSettings {
  std::string name = "energy";
  std::optional<double> beta;  // weight of the outliers' term (energy: of L_reg); empty: the published one
  double m_in = -25;  // ID energies above it are penalised (the paper's text has the two margins swapped)
  double m_out = -7;  // outlier energies below it are penalised
  int64_t reject_classes = 5;  // sofl: outputs beside the classes
  double temperature = 0.5;    // supcon: of the similarities
};

struct Loss {
  at::Tensor total;           // scalar, with gradient
  at::Tensor classification;  // scalar: the term of the labelled images, as a rule their cross-entropy
  at::Tensor regularisation;  // scalar: the other term before its weight, as a rule that of the outliers
};

class Objective {
 public:
  virtual ~Objective() = default;

  // What the network has to bring along: its head (net/network.h) and its outputs; those beyond the classes
  // mean what the objective says.
  virtual std::string head() const { return "linear"; }
  virtual int64_t outputs(int64_t classes) const { return classes; }
  // Crops of each ID image in a batch: first all images, then all again.
  virtual int64_t views() const { return 1; }

  virtual bool needs_outliers() const { return true; }  // false: means something without them too
  virtual bool uses_outliers() const { return true; }   // false: those in a batch are ignored

  // Must not wait for the device (no item(), no sizes that depend on values): a step is recorded
  // (train/replay.h). id_logits n×outputs, labels int64 n, outlier_logits k×outputs (k = 0 where there are
  // none), chance k float32 uniform in [0, 1), for an objective that draws.
  virtual Loss operator()(const at::Tensor& id_logits, const at::Tensor& labels,
                          const at::Tensor& outlier_logits, const at::Tensor& chance) const = 0;
};

std::unique_ptr<Objective> make_objective(const ObjectiveSettings& settings);
// The settings with a weight: the objective's own where none is given, and none where it has none.
ObjectiveSettings resolved(ObjectiveSettings settings);
// The score that the objective was published with; empty where several are in use.
std::string published_score(const std::string& objective);
std::vector<std::string> objective_names();

// The mean of a term's values, one a row; 0 where there are none.
at::Tensor mean_of(const at::Tensor& values);

// E(x) = −log Σ exp(logits), one a row.
at::Tensor energy(const at::Tensor& logits);

}  // namespace poem
