// What every command says about a detector that cannot call an image unknown.
//
//   check_threshold(detector, "runs/mine/detector.safetensors");
#pragma once
#include <string>

#include "poem/detector.h"

namespace poem {

// Throws an Error at `where` if the detector has no threshold.
void check_threshold(const Detector& detector, const std::string& where = "detector");

}  // namespace poem
