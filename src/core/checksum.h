// Checksums of files, as data sets publish them.
//
//   if (checksum("a.tar.gz", "sha256") != "sha256:c4a3…") …
#pragma once
#include <optional>
#include <string>

namespace poem {

// "ALGORITHM:hexadecimal digits", the algorithm being md5 or sha256; nothing where poem was built without
// libcrypto. Shows a progress bar and ends on Ctrl-C.
std::optional<std::string> checksum(const std::string& path, const std::string& algorithm);

}  // namespace poem
