// JSON as text. Names of files and classes may contain any bytes: what is not UTF-8 becomes U+FFFD, where
// dump() alone would throw.
//
//   write_file("results.json", json_text(results, 2) + "\n");
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace poem {

// `indent` −1: one line.
template <class Json>
std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace poem
