// Checksums of files, as data sets publish them.
//
//   if (checksum("a.tar.gz", "sha256") != "sha256:c4a3…") …
#pragma once
#include <optional>
#include <string>

namespace poem {

// "ALGORITHM:hexadecimal digits", where the algorithm is md5 or sha256; empty if poem was built without
// libcrypto. Shows a progress bar and stops on Ctrl-C.
std::optional<std::string> checksum(const std::string& path, const std::string& algorithm);

}  // namespace poem
