// Files that are part of the library: CMake puts the text of each into it (POEM_ASSETS in CMakeLists.txt).
//
//   page += asset("report.css");
#pragma once
#include <string>
#include <string_view>

namespace poem {

std::string_view asset(const std::string& name);  // by the file's name without its folder

}  // namespace poem
