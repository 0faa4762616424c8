#include "plan/machine.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "poem/error.h"

namespace poem {
namespace {

// docs/performance.md has the speeds: the paper's epoch with stored features. The links and the disk are what
// vendors state for such machines.
Machine h200() {
  Machine machine;
  machine.name = "h200";
  machine.note =
      "DenseNet-BC-100-12 measured on one NVIDIA H200 (docs/performance.md); the smallest step, links "
      "(NVLink, 400 Gbit/s between hosts) and disk are assumptions";
  machine.networks = {{"densenet-100-12 at 32×32", 287929692, 161542, 21185, 2e-3}};
  machine.devices_per_host = 8;
  machine.disk = 5e9;
  machine.link = 4.5e11;
  machine.link_latency = 1e-5;
  machine.host_link = 5e10;
  machine.host_latency = 2e-5;
  machine.epochs = {{200000, 7.38, 1}};  // not the epoch that the speeds come from
  return machine;
}

// A number of at least `low`.
double number(const nlohmann::json& object, const std::string& where, const std::string& key, double low) {
  const auto found = object.find(key);
  if (found == object.end()) throw Error(where, "has no \"" + key + "\"", "write the file with poem bench");
  if (!found->is_number() || !(found->get<double>() >= low) || !std::isfinite(found->get<double>()))
    throw Error(where, fmt::format("\"{}\" is {}", key, found->dump()),
                fmt::format("give a number of at least {}", low));
  return found->get<double>();
}

std::string text(const nlohmann::json& object, const std::string& where, const std::string& key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string())
    throw Error(where, "has no text \"" + key + "\"", "write the file with poem bench");
  return found->get<std::string>();
}

Machine machine_from(const nlohmann::json& json, const std::string& where) {
  constexpr double kSome = 1e-12;
  if (!json.is_object() || !json.contains("networks") || !json["networks"].is_array() ||
      json["networks"].empty())
    throw Error(where, "does not describe a machine", "write the file with poem bench");
  Machine machine;
  machine.name = text(json, where, "name");
  machine.note = text(json, where, "note");
  machine.devices_per_host = static_cast<int64_t>(number(json, where, "devices_per_host", 1));
  machine.disk = number(json, where, "disk_bytes_per_s", 1);
  machine.link = number(json, where, "link_bytes_per_s", 0);
  machine.link_latency = number(json, where, "link_latency_s", 0);
  machine.host_link = number(json, where, "host_link_bytes_per_s", 0);
  machine.host_latency = number(json, where, "host_latency_s", 0);
  for (const auto& entry : json["networks"]) {
    NetworkSpeed speed;
    speed.network = text(entry, where, "network");
    speed.multiply_adds = number(entry, where, "multiply_adds", 1);
    speed.forward = number(entry, where, "forward_images_per_s", kSome);
    speed.train = number(entry, where, "train_images_per_s", kSome);
    speed.step = number(entry, where, "step_s", 0);
    machine.networks.push_back(speed);
  }
  for (const auto& entry : json.value("epochs", nlohmann::json::array()))
    machine.epochs.push_back({number(entry, where, "pool", 1), number(entry, where, "seconds", kSome),
                              static_cast<int64_t>(number(entry, where, "devices", 1))});
  return machine;
}

}  // namespace

Machine read_machine(const std::string& path) {
  if (path == "h200") return h200();
  try {
    return machine_from(nlohmann::json::parse(read_file(path)), path);
  } catch (const nlohmann::json::parse_error&) {
    throw Error(path, "is not JSON", "write the file with poem bench, or name a built-in machine: h200");
  }
}

std::string to_json_text(const Machine& machine) {
  nlohmann::ordered_json networks = nlohmann::ordered_json::array();
  for (const NetworkSpeed& speed : machine.networks) {
    networks.push_back({{"network", speed.network},
                        {"multiply_adds", speed.multiply_adds},
                        {"forward_images_per_s", speed.forward},
                        {"train_images_per_s", speed.train},
                        {"step_s", speed.step}});
  }
  nlohmann::ordered_json epochs = nlohmann::ordered_json::array();
  for (const MeasuredEpoch& epoch : machine.epochs)
    epochs.push_back({{"pool", epoch.pool}, {"seconds", epoch.seconds}, {"devices", epoch.devices}});
  const nlohmann::ordered_json json = {{"name", machine.name},
                                       {"note", machine.note},
                                       {"networks", networks},
                                       {"devices_per_host", machine.devices_per_host},
                                       {"disk_bytes_per_s", machine.disk},
                                       {"link_bytes_per_s", machine.link},
                                       {"link_latency_s", machine.link_latency},
                                       {"host_link_bytes_per_s", machine.host_link},
                                       {"host_latency_s", machine.host_latency},
                                       {"epochs", epochs}};
  return json.dump(2) + "\n";
}

SpeedEstimate speed_for(const Machine& machine, double multiply_adds) {
  const auto distance = [&](const NetworkSpeed& speed) {
    return std::abs(std::log(speed.multiply_adds / multiply_adds));
  };
  const NetworkSpeed* nearest = &machine.networks.front();
  for (const NetworkSpeed& speed : machine.networks)
    if (distance(speed) < distance(*nearest)) nearest = &speed;
  constexpr double kSame = 1e-2;  // with other classes the last layer differs
  SpeedEstimate estimate{*nearest, distance(*nearest) > kSame};
  if (!estimate.scaled) return estimate;
  const double slower = multiply_adds / nearest->multiply_adds;
  estimate.speed.forward /= slower;
  estimate.speed.train /= slower;
  return estimate;
}

}  // namespace poem
