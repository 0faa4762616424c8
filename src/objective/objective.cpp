#include "objective/objective.h"

#include <ATen/ATen.h>

#include <functional>

#include "core/error.h"
#include "core/text.h"

namespace poem {

// One function an objective, each in a file of its own.
std::unique_ptr<Objective> make_cross_entropy(const ObjectiveSettings&);
std::unique_ptr<Objective> make_energy(const ObjectiveSettings&);

namespace {

const std::vector<std::pair<std::string, std::unique_ptr<Objective> (*)(const ObjectiveSettings&)>>
    kObjectives = {
        {"cross_entropy", make_cross_entropy},
        {"energy", make_energy},
};

}  // namespace

std::vector<std::string> objective_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : kObjectives) names.push_back(name);
  return names;
}

std::unique_ptr<Objective> make_objective(const ObjectiveSettings& settings) {
  for (const auto& [name, make] : kObjectives) {
    if (name == settings.name) return make(settings);
  }
  throw Error("objective.name", "is '" + settings.name + "'", "known: " + listed(objective_names()));
}

at::Tensor energy(const at::Tensor& logits) { return -at::logsumexp(logits, 1); }

}  // namespace poem
