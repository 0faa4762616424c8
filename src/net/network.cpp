#include "poem/network.h"

#include <fmt/format.h>

#include "core/registry.h"
#include "poem/error.h"

namespace poem {

// One function per backbone, each in its own file.
std::unique_ptr<Network> make_densenet(const NetworkSpec& spec, const Weights& weights);
std::unique_ptr<Network> make_wideresnet(const NetworkSpec& spec, const Weights& weights);
std::unique_ptr<Network> make_resnet18(const NetworkSpec& spec, const Weights& weights);
std::unique_ptr<Network> make_resnet18_224(const NetworkSpec& spec, const Weights& weights);
std::unique_ptr<Network> make_resnet50(const NetworkSpec& spec, const Weights& weights);
std::unique_ptr<Network> make_mlp(const NetworkSpec& spec, const Weights& weights);

// Mixes the outputs of `inner` with densities of the pixels.
std::unique_ptr<Network> make_density(const NetworkSpec& spec, std::unique_ptr<Network> inner,
                                      const Weights& weights);

namespace {

constexpr int64_t kDensities = 2;  // outputs that the density head adds

const Registry<std::unique_ptr<Network> (*)(const NetworkSpec&, const Weights&)> kNetworks(
    "network.name", {
                        {"densenet", make_densenet},
                        {"wideresnet", make_wideresnet},
                        {"resnet18", make_resnet18},
                        {"resnet18_224", make_resnet18_224},
                        {"resnet50", make_resnet50},
                        {"mlp", make_mlp},
                    });

// Products of two such numbers do not overflow.
void check_number(const std::string& key, int64_t value) {
  constexpr int64_t kMost = int64_t{1} << 24;
  if (value < 1 || value > kMost)
    throw Error("network." + key, fmt::format("is {}", value), fmt::format("give 1 to {}", kMost));
}

}  // namespace

std::vector<std::string> network_names() { return kNetworks.names(); }

std::unique_ptr<Network> make_network(const NetworkSpec& spec, const Weights& weights) {
  const auto make = kNetworks.find(spec.name);
  check_number("channels", spec.channels);
  check_number("pixels", spec.pixels);
  check_number("classes", spec.classes);
  check_number("components", spec.components);
  if (spec.init == Initialisation::kAuthors && spec.name != "densenet")
    throw Error("network.init", fmt::format("'authors' is not an initialisation of {}", spec.name),
                "known: he, and authors for densenet");
  if (spec.head != HeadKind::kDensity) return make(spec, weights);
  NetworkSpec inner = spec;
  inner.head = HeadKind::kLinear;
  inner.classes -= kDensities;
  check_number("classes", inner.classes);
  return make_density(spec, make(inner, weights), weights);
}

}  // namespace poem
