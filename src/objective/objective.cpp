#include "poem/objective.h"

#include <ATen/ATen.h>

#include "core/registry.h"

namespace poem {

// One function per objective, each in its own file.
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
  std::optional<double> beta = std::nullopt;  // the published weight; empty if the objective has none
  const char* score = "";                     // the published score; empty if several are in use
};

const Registry<Entry> kObjectives("objective.name", {
                                                        {"cross_entropy", {make_cross_entropy}},
                                                        {"energy", {make_energy, 0.1, "energy"}},
                                                        {"oe", {make_outlier_exposure, 0.5, "msp"}},
                                                        {"outlier_class", {make_outlier_class, 1, "reject"}},
                                                        {"sofl", {make_sofl, 5, "reject"}},
                                                        {"ccu", {make_ccu, std::nullopt, "msp"}},
                                                        {"supcon", {make_supcon, std::nullopt, "ssd"}},
                                                    });

}  // namespace

std::vector<std::string> objective_names() { return kObjectives.names(); }

std::unique_ptr<Objective> make_objective(const ObjectiveSettings& settings) {
  return kObjectives.find(settings.name).make(resolved(settings));
}

ObjectiveSettings resolved(ObjectiveSettings settings) {
  const std::optional<double> published = kObjectives.find(settings.name).beta;
  if (!settings.beta || !published) settings.beta = published;
  return settings;
}

std::string published_score(const std::string& objective) { return kObjectives.find(objective).score; }

at::Tensor mean_of(const at::Tensor& values) {
  return values.size(0) > 0 ? values.mean() : at::zeros({}, values.options());
}

at::Tensor energy(const at::Tensor& logits) { return -at::logsumexp(logits, 1); }

}  // namespace poem
