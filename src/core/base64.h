// Bytes as text, for pictures and numbers inside a page.
//
//   "data:image/png;base64," + base64(read_file("a.png"))
#pragma once
#include <string>
#include <string_view>

namespace poem {

std::string base64(std::string_view bytes);  // RFC 4648, with padding

}  // namespace poem
