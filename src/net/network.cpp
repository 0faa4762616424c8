#include "net/network.h"

#include <fmt/format.h>

#include <map>

#include "core/error.h"

namespace poem {

// The registry: a backbone is one file that defines make_NAME(spec, seed), and one line here.
#define POEM_BACKBONES(backbone) backbone(densenet) backbone(wideresnet) backbone(resnet18) backbone(mlp)

#define POEM_DECLARE(name) std::unique_ptr<Network> make_##name(const NetworkSpec& spec, uint64_t seed);
POEM_BACKBONES(POEM_DECLARE)

namespace {

using Factory = std::unique_ptr<Network> (*)(const NetworkSpec& spec, uint64_t seed);

#define POEM_ENTRY(name) {#name, make_##name},
const std::map<std::string, Factory>& registry() {
  static const std::map<std::string, Factory> table = {POEM_BACKBONES(POEM_ENTRY)};
  return table;
}

void check_positive(const std::string& key, int64_t value) {
  if (value < 1) throw Error("network." + key, fmt::format("is {}", value), "give at least 1");
}

}  // namespace

std::unique_ptr<Network> make_network(const NetworkSpec& spec, uint64_t seed) {
  const auto found = registry().find(spec.name);
  if (found == registry().end()) {
    std::string known;
    for (const auto& [name, make] : registry()) known += (known.empty() ? "" : ", ") + name;
    throw Error("network.name", fmt::format("'{}' is not a network", spec.name), "known: " + known);
  }
  check_positive("channels", spec.channels);
  check_positive("classes", spec.classes);
  if (spec.init != "he" && !(spec.init == "authors" && spec.name == "densenet"))
    throw Error("network.init", fmt::format("'{}' is not an initialisation of {}", spec.init, spec.name),
                "known: he, and authors for densenet");
  return found->second(spec, seed);
}

}  // namespace poem
