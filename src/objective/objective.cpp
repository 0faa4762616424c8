#include "objective/objective.h"

#include <ATen/ATen.h>

#include "core/registry.h"

namespace poem {

// One function an objective, each in a file of its own.
std::unique_ptr<Objective> make_cross_entropy(const ObjectiveSettings&);
std::unique_ptr<Objective> make_energy(const ObjectiveSettings&);

namespace {

const Registry<std::unique_ptr<Objective> (*)(const ObjectiveSettings&)> kObjectives(
    "objective.name", {
                          {"cross_entropy", make_cross_entropy},
                          {"energy", make_energy},
                      });

}  // namespace

std::vector<std::string> objective_names() { return kObjectives.names(); }

std::unique_ptr<Objective> make_objective(const ObjectiveSettings& settings) {
  return kObjectives.find(settings.name)(settings);
}

at::Tensor energy(const at::Tensor& logits) { return -at::logsumexp(logits, 1); }

}  // namespace poem
