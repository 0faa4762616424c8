// The version of the library.
//
//   std::puts(poem::version());   // "0.1.0"
#pragma once

namespace poem {

const char* version();  // MAJOR.MINOR.PATCH

}  // namespace poem
