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

struct Entry {
  std::unique_ptr<Objective> (*make)(const ObjectiveSettings&);
  double beta = 0.1;  // its published weight; objectives without one ignore it
};

const Registry<Entry> kObjectives("objective.name", {
                                                        {"cross_entropy", {make_cross_entropy}},
                                                        {"energy", {make_energy, 0.1}},
                                                        {"oe", {make_outlier_exposure, 0.5}},
                                                        {"outlier_class", {make_outlier_class, 1}},
                                                        {"sofl", {make_sofl, 5}},
                                                        {"ccu", {make_ccu}},
                                                        {"supcon", {make_supcon}},
                                                    });

}  // namespace

std::vector<std::string> objective_names() { return kObjectives.names(); }

std::unique_ptr<Objective> make_objective(const ObjectiveSettings& settings) {
  return kObjectives.find(settings.name).make(resolved(settings));
}

ObjectiveSettings resolved(ObjectiveSettings settings) {
  if (!settings.beta) settings.beta = kObjectives.find(settings.name).beta;
  return settings;
}

at::Tensor mean_of(const at::Tensor& values) {
  return values.size(0) > 0 ? values.mean() : at::zeros({}, values.options());
}

at::Tensor energy(const at::Tensor& logits) { return -at::logsumexp(logits, 1); }

}  // namespace poem
