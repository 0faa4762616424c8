// The time of an epoch over the size of the pool, for 1 to 1,024 devices, as SVG.
#pragma once
#include <string>

#include "plan/cost.h"

namespace poem {

std::string plan_picture(const Workload& work, const Machine& machine);

}  // namespace poem
