// Archives of images: which files a source means.
//
//   for (const std::string& path : archive_paths("pool-{000..127}.tar")) …
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace poem {

// By its name; a folder with nothing but archives (and files that describe them) counts too.
bool is_archive(const std::string& path);

// The archive itself, those that a name with braces means, or the archives of a folder by name.
std::vector<std::string> archive_paths(const std::string& source);

bool is_plain_tar(std::string_view start);  // of a file that starts so: a tar that is not compressed

}  // namespace poem
