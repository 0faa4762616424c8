// The images of a JSON request.
//
//   const auto read = read_json_uploads(R"({"images": [{"name": "photo.jpg", "data": "iVBORw0…"}]})", 256);
//   if (const auto* uploads = std::get_if<std::vector<JsonUpload>>(&read)) …
#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "serve/service.h"

namespace poem {

struct JsonUpload {
  std::string name, bytes;  // an image file
};

// The images, or what to answer if the body is not of that form or has more than `most` of them. Reading
// stops at the first thing that is wrong, so that no body takes more memory than a few times its size.
std::variant<std::vector<JsonUpload>, Answer> read_json_uploads(const std::string& body, int64_t most);

}  // namespace poem
