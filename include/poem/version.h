// The version of this build, as in "0.1.0".
#pragma once

namespace poem {
const char* version();
}
