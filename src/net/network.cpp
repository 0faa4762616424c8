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

namespace {

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
  return make(spec, seed);
}

}  // namespace poem
