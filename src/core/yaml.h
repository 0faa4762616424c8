// YAML that is safe to walk: one document, of bounded depth and size, in which nothing contains itself.
//
//   const YAML::Node root = load_yaml("my.yaml", read_file("my.yaml"), "correct the line");
#pragma once
#include <yaml-cpp/yaml.h>

#include <string>

namespace poem {

// The document in `text`, null where there is none. `where` names the text in messages. Text that is not
// YAML, a second document, an anchor that contains itself, and aliases that expand to more values than
// any file of settings has are an Error that names the line (if the text has several).
YAML::Node load_yaml(const std::string& where, const std::string& text, const std::string& remedy);

}  // namespace poem
