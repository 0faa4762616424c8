#include "poem/objective.h"

#include <ATen/ATen.h>

#include <utility>

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
  ObjectiveFactory make;
  Published published = {};
};

Registry<Entry>& objectives() {
  static Registry<Entry> objectives("objective.name",
                                    {
                                        {"cross_entropy", {make_cross_entropy}},
                                        {"energy", {make_energy, {0.1, "energy"}}},
                                        {"oe", {make_outlier_exposure, {0.5, "msp"}}},
                                        {"outlier_class", {make_outlier_class, {1, "reject"}}},
                                        {"sofl", {make_sofl, {5, "reject"}}},
                                        {"ccu", {make_ccu, {std::nullopt, "msp"}}},
                                        {"supcon", {make_supcon, {std::nullopt, "ssd"}}},
                                    });
  return objectives;
}

}  // namespace

std::vector<std::string> objective_names() { return objectives().names(); }

std::unique_ptr<Objective> make_objective(const ObjectiveSettings& settings) {
  return objectives().find(settings.name).make(resolved(settings));
}

ObjectiveSettings resolved(ObjectiveSettings settings) {
  const std::optional<double> published = objectives().find(settings.name).published.beta;
  if (!settings.beta || !published) settings.beta = published;
  return settings;
}

std::string published_score(const std::string& objective) {
  return objectives().find(objective).published.score;
}

void register_objective(const std::string& name, ObjectiveFactory make, const Published& published) {
  objectives().add(name, {std::move(make), published});
}

at::Tensor mean_of(const at::Tensor& values) {
  return values.size(0) > 0 ? values.mean() : at::zeros({}, values.options());
}

at::Tensor energy(const at::Tensor& logits) { return -at::logsumexp(logits, 1); }

}  // namespace poem
