// Measures the constants of a plan on this machine.
//
//   const Machine machine = measure_machine(config, device, ".");
//   write_file("machine.json", to_json_text(machine));
#pragma once
#include <c10/core/Device.h>

#include <string>

#include "plan/machine.h"
#include "poem/config.h"

namespace poem {

// Trains the config's network on random pixels for a moment, and writes and reads a file in `folder`.
Machine measure_machine(const Config& config, at::Device device, const std::string& folder);

}  // namespace poem
