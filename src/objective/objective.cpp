#include "objective/objective.h"

#include <ATen/ATen.h>

#include "core/registry.h"

namespace poem {

// One function an objective, each in a file of its own.
std::unique_ptr<Objective> make_cross_entropy(const ObjectiveSettings&);
std::unique_ptr<Objective> make_energy(const ObjectiveSettings&);
std::unique_ptr<Objective> make_outlier_exposure(const ObjectiveSettings&);
std::unique_ptr<Objective> make_outlier_class(const ObjectiveSettings&);
std::unique_ptr<Objective> make_sofl(const ObjectiveSettings&);
std::unique_ptr<Objective> make_ccu(const ObjectiveSettings&);
std::unique_ptr<Objective> make_supcon(const ObjectiveSettings&);

namespace {

const Registry<std::unique_ptr<Objective> (*)(const ObjectiveSettings&)> kObjectives(
    "objective.name", {
                          {"cross_entropy", make_cross_entropy},
                          {"energy", make_energy},
                          {"oe", make_outlier_exposure},
                          {"outlier_class", make_outlier_class},
                          {"sofl", make_sofl},
                          {"ccu", make_ccu},
                          {"supcon", make_supcon},
                      });

}  // namespace

std::vector<std::string> objective_names() { return kObjectives.names(); }

std::unique_ptr<Objective> make_objective(const ObjectiveSettings& settings) {
  return kObjectives.find(settings.name)(settings);
}

at::Tensor mean_of(const at::Tensor& values) {
  return values.size(0) > 0 ? values.mean() : at::zeros({}, values.options());
}

at::Tensor energy(const at::Tensor& logits) { return -at::logsumexp(logits, 1); }

}  // namespace poem
