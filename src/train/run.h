// The runs of poem/training.h, trained by a team. All ranks call these with the same arguments; rank 0 writes
// the run folder, which all of them must see if they resume it.
#pragma once
#include <string>
#include <vector>

#include "dist/team.h"
#include "poem/training.h"

namespace poem {

RunOutcome start_run(const Config& config, const std::string& folder, bool force, at::Device device,
                     const Team& team);
RunOutcome resume_run(const std::string& folder, at::Device device, const std::vector<std::string>& set,
                      const Team& team);

}  // namespace poem
