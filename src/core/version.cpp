#include "poem/version.h"

namespace poem {
const char* version() { return POEM_VERSION; }
}  // namespace poem
