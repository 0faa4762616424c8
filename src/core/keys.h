// Declared configuration keys: a table binds each name to a variable with its range and one line of meaning;
// parsing, checking, printing and the reference page all come from that table.
//
//   std::vector<Key> keys = {{"train.epochs", &epochs, "passes over the ID images", between(1, 1e6)}};
//   read_yaml(keys, "my.yaml");
//   set_key(keys, "train.epochs=3");
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace poem {

struct Allowed {  // numbers: low … high (lists: each member); texts: one of `choices`, or any if empty
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices = {};
};
Allowed between(double low, double high);
Allowed at_least(double low);
Allowed one_of(std::vector<std::string> choices);

// A variable of an enum whose values 0, 1, … are written as the texts of one_of(), in the same order.
struct Choice {
  std::function<size_t()> get;
  std::function<void(size_t)> set;
};
template <class Enum>
Choice choice(Enum* value) {
  return {[=] { return static_cast<size_t>(*value); }, [=](size_t i) { *value = static_cast<Enum>(i); }};
}

// A text that is not stored as such.
struct Text {
  std::function<std::string()> get;
  std::function<void(const std::string&)> set;
};

// Texts that are written as one text if there is only one, and as a list otherwise. An empty text means none.
struct OneOrMore {
  std::vector<std::string>* texts;
};

struct Key {
  std::string name;  // "section.key", or "key"
  std::variant<bool*, int64_t*, double*, std::optional<double>*, std::string*, std::vector<int64_t>*,
               std::vector<double>*, std::vector<std::string>*, OneOrMore, Choice, Text>
      value;  // an optional number is written "auto" if it is empty
  std::string meaning;
  Allowed allowed = {};
};

// Errors name the file and line (or what the assignment was given to), the value, and the nearest key or the
// allowed values.
void read_yaml(const std::vector<Key>& keys, const std::string& path);
void read_yaml_key(const Key& key, const std::string& path);  // only this key, if the file has it
void read_yaml_text(const std::vector<Key>& keys, const std::string& text, const std::string& where);
// "a.b=value", value in YAML.
void set_key(const std::vector<Key>& keys, const std::string& assignment,
             const std::string& given_to = "set");

std::string value_text(const Key& key);    // as YAML
std::string allowed_text(const Key& key);  // "1 … 100", "he, authors", ""
std::string type_text(const Key& key);     // "integer", "list of numbers", …

// All keys as a YAML document, with their meaning as comments if asked.
std::string to_yaml(const std::vector<Key>& keys, bool with_meaning);
// The same as a Markdown table for the documentation.
std::string to_markdown(const std::vector<Key>& keys);

}  // namespace poem
