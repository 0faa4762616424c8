// The images of a form: multipart/form-data, as browsers and curl send it (RFC 7578 and 2046).
//
//   if (is_form(content_type)) {
//     const auto read = read_form(content_type, body, 256);
//     if (const auto* uploads = std::get_if<std::vector<Upload>>(&read)) …
//   }
//
// httplib's own parser matches every header of a part with a regular expression: a line made for it takes it
// seconds. Headers that it does not understand it takes for none, and their images are lost.
#pragma once
#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "serve/service.h"

namespace poem {

// Whether a request with this Content-Type has a form as its body.
bool is_form(std::string_view content_type);

// The images, which stay in the body, or what to answer if the form cannot be understood or has more than
// `most` of them: no image is left out. Reading stops at the first thing that is wrong, and takes a time in
// proportion to the body, whatever is in it.
std::variant<std::vector<Upload>, Answer> read_form(std::string_view content_type, std::string_view body,
                                                    int64_t most);

}  // namespace poem
