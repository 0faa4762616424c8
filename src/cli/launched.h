// What commands share that several processes carry out together.
//
//   in_team(common, timeout, [&](at::Device device, const Team& team) { … });
#pragma once
#include <c10/core/Device.h>

#include <functional>
#include <string>

#include "cli/commands.h"
#include "dist/team.h"

namespace poem {

// Takes this process's share of the machine's GPUs and cores, waits for the other processes, and does the
// work. Only rank 0 logs, and an error that several ranks meet is said once: by the first of them, or by poem
// launch, which names them if others met another one.
void in_team(const CommonOptions& common, int timeout,
             const std::function<void(at::Device, const Team&)>& work);

constexpr int kTimeout = 1800;
void add_timeout(CLI::App& command, int& seconds);  // --timeout SECONDS

// The variable in which poem launch names the descriptor to which its processes write what made them fail.
constexpr const char* kFaults = "POEM_FAULTS";

// False if poem launch did not start this process: it then has to print the message itself.
bool tell_launcher(const std::string& message);
void print_fault(const std::string& message);  // on stderr

}  // namespace poem
