// Bytes as text, for pictures and numbers inside a page.
//
//   "data:image/png;base64," + base64(read_file("a.png"))
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace poem {

std::string base64(std::string_view bytes);  // RFC 4648, with padding

// The bytes again; empty if the text is not what base64() writes.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace poem
