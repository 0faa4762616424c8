#include "net/network.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/registry.h"

namespace poem {

// One function a backbone, each in a file of its own.
std::unique_ptr<Network> make_densenet(const NetworkSpec& spec, uint64_t seed);
std::unique_ptr<Network> make_wideresnet(const NetworkSpec& spec, uint64_t seed);
std::unique_ptr<Network> make_resnet18(const NetworkSpec& spec, uint64_t seed);
std::unique_ptr<Network> make_mlp(const NetworkSpec& spec, uint64_t seed);

// Mixes the outputs of `inner` with densities of the pixels.
std::unique_ptr<Network> make_density(const NetworkSpec& spec, std::unique_ptr<Network> inner, uint64_t seed);

namespace {

constexpr int64_t kDensities = 2;  // outputs that the density head adds

const Registry<std::unique_ptr<Network> (*)(const NetworkSpec&, uint64_t)> kNetworks(
    "network.name", {
                        {"densenet", make_densenet},
                        {"wideresnet", make_wideresnet},
                        {"resnet18", make_resnet18},
                        {"mlp", make_mlp},
                    });

void check_positive(const std::string& key, int64_t value) {
  if (value < 1) throw Error("network." + key, fmt::format("is {}", value), "give at least 1");
}

}  // namespace

std::vector<std::string> network_names() { return kNetworks.names(); }

std::unique_ptr<Network> make_network(const NetworkSpec& spec, uint64_t seed) {
  const auto make = kNetworks.find(spec.name);
  check_positive("channels", spec.channels);
  check_positive("classes", spec.classes);
  if (spec.init != "he" && !(spec.init == "authors" && spec.name == "densenet"))
    throw Error("network.init", fmt::format("'{}' is not an initialisation of {}", spec.init, spec.name),
                "known: he, and authors for densenet");
  if (spec.head == "linear" || spec.head == "projection") return make(spec, seed);
  if (spec.head != "density")
    throw Error("network.head", fmt::format("is '{}'", spec.head), "known: linear, projection and density");
  NetworkSpec inner = spec;
  inner.head = "linear";
  inner.classes -= kDensities;
  check_positive("classes", inner.classes);
  return make_density(spec, make(inner, seed), seed);
}

}  // namespace poem
