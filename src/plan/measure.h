// Measures the constants of a plan on this machine.
//
//   const Machine machine = measure_machine(config, device, ".", team);
//   write_file("machine.json", to_json_text(machine));
#pragma once
#include <c10/core/Device.h>

#include <string>

#include "dist/team.h"
#include "plan/machine.h"
#include "poem/config.h"

namespace poem {

// The speed of the config's network: trains it on random pixels for a moment.
NetworkSpeed measure_network(const Config& config, at::Device device);

// Measures the config's network, and writes and reads a file in `folder`. All
// ranks of a team compute at the same time, each as a device of its own, then exchange messages. Only rank
// 0 measures the disk, so only its result is complete.
Machine measure_machine(const Config& config, at::Device device, const std::string& folder, const Team& team);

}  // namespace poem
