// What training minimises, on the logits of one mixed batch of ID images and outliers.
//
//   auto objective = make_objective(settings);
//   spec.classes = objective->outputs(class_count);
//   Loss loss = (*objective)(id_logits, labels, outlier_logits, chance);
//   loss.total.backward();
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "poem/network.h"

namespace poem {

struct ObjectiveSettings {
  std::string name = "energy";
  std::optional<double> beta;  // weight of the outliers' term (energy: of L_reg); empty: the published one
  double m_in = -25;  // ID energies above it are penalised (the paper's text has the two margins swapped)
  double m_out = -7;  // outlier energies below it are penalised
  int64_t reject_classes = 5;  // sofl: outputs besides the classes
  double temperature = 0.5;    // supcon: of the similarities
  int64_t components = 100;    // ccu: Gaussians in each of the two densities
  double density_rate = 1e-5;  // ccu: learning rate of the densities
};

struct Loss {
  at::Tensor total;           // scalar, with gradient
  at::Tensor classification;  // scalar: the term of the labelled images, usually their cross-entropy
  at::Tensor regularisation;  // scalar: the other term without its weight, usually that of the outliers
};

class Objective {
 public:
  virtual ~Objective() = default;

  // What the network must have: its head (poem/network.h) and its number of outputs. The objective defines
  // the meaning of outputs beyond the classes.
  virtual HeadKind head() const { return HeadKind::kLinear; }
  virtual int64_t outputs(int64_t classes) const { return classes; }
  // Crops per ID image in a batch. A batch with two views has all images once, then all images again.
  virtual int64_t views() const { return 1; }

  virtual bool needs_outliers() const { return true; }  // false: it works without outliers too
  virtual bool uses_outliers() const { return true; }   // false: it ignores the outliers of a batch

  // Must not wait for the device (no item(), no sizes that depend on values), because a step is recorded
  // as a CUDA graph. id_logits: n×outputs; labels: n int64; outlier_logits: k×outputs, where k may be 0;
  // chance: k float32, uniform in [0, 1), for an objective that draws (sofl draws classes for its outliers).
  // Drawn outside, since a recorded step would repeat its draws and a resumed run must draw the same.
  virtual Loss operator()(const at::Tensor& id_logits, const at::Tensor& labels,
                          const at::Tensor& outlier_logits, const at::Tensor& chance) const = 0;
};

// An unknown name is an Error. An empty settings.beta means the published weight.
std::unique_ptr<Objective> make_objective(const ObjectiveSettings& settings);
// The same settings with the published weight where `beta` is empty. If the objective has no weight, `beta`
// becomes empty.
ObjectiveSettings resolved(ObjectiveSettings settings);
// The score that the objective was published with; empty if several are in use.
std::string published_score(const std::string& objective);
std::vector<std::string> objective_names();

// What an objective was published with.
struct Published {
  std::optional<double> beta = std::nullopt;  // ObjectiveSettings::beta; empty if the objective has no weight
  std::string score = "";                     // empty if several are in use
};

// Adds an objective of the caller's own: objective.name then takes its name. A name that is taken is an
// Error. Register before the first use and from one thread.
using ObjectiveFactory = std::function<std::unique_ptr<Objective>(const ObjectiveSettings& settings)>;
void register_objective(const std::string& name, ObjectiveFactory make, const Published& published = {});

// The mean of a term's values, one per row; 0 if there are no rows.
at::Tensor mean_of(const at::Tensor& values);

// E(x) = −log Σ exp(logits), one per row.
at::Tensor energy(const at::Tensor& logits);

}  // namespace poem
