#include "core/keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <type_traits>

#include "core/file.h"
#include "core/text.h"
#include "core/yaml.h"
#include "poem/error.h"

namespace poem {
namespace {

constexpr const char* kAuto = "auto";

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

// What a key's variable holds; Choice, Text and OneOrMore stand for themselves.
template <class Value>
using Held = std::remove_pointer_t<std::decay_t<Value>>;

template <class T>
const char* type_name() {
  if constexpr (std::is_same_v<T, Choice> || std::is_same_v<T, Text>) return "text";
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  if constexpr (std::is_same_v<T, int64_t>) return "integer";
  if constexpr (std::is_same_v<T, double>) return "number";
  if constexpr (std::is_same_v<T, std::optional<double>>) return "number or auto";
  if constexpr (std::is_same_v<T, std::string>) return "text";
  if constexpr (std::is_same_v<T, std::vector<int64_t>>) return "list of integers";
  if constexpr (std::is_same_v<T, std::vector<double>>) return "list of numbers";
  if constexpr (std::is_same_v<T, std::vector<std::string>>) return "list of texts";
  if constexpr (std::is_same_v<T, OneOrMore>) return "text or list of texts";
}

// A value's text in error messages: short, on one line.
std::string shown(const YAML::Node& node) {
  std::string text = node.IsNull() ? "" : YAML::Dump(node);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

template <class T>
void check(const T& value, const Key& key, const std::string& where) {
  const Allowed& allowed = key.allowed;
  bool fine = true;
  if constexpr (std::is_same_v<T, std::string>) {
    const auto& choices = allowed.choices;
    if (choices.empty() || std::count(choices.begin(), choices.end(), value) > 0) return;
    throw Error(where, fmt::format("{} is '{}'", key.name, value),
                suggestion(value, choices) + "known: " + listed(choices));
  } else if constexpr (!std::is_same_v<T, bool>) {
    const auto number = static_cast<double>(value);
    fine = std::isfinite(number) && number >= allowed.low && number <= allowed.high;
  }
  if (!fine) {
    throw Error(where, fmt::format("{} is {}, out of range", key.name, value),
                "allowed: " + allowed_text(key));
  }
}

template <class T>
T parse_scalar(const YAML::Node& node, const Key& key, const std::string& where) {
  try {
    if (!node.IsScalar()) throw YAML::BadConversion(node.Mark());
    auto value = node.as<T>();
    check(value, key, where);
    return value;
  } catch (const YAML::Exception&) {
    throw Error(where, fmt::format("{} is '{}'", key.name, shown(node)), "it must be: " + type_text(key));
  }
}

template <class T>
std::vector<T> parse_list(const YAML::Node& node, const Key& key, const std::string& where) {
  std::vector<T> values;
  for (const auto& member : node) values.push_back(parse_scalar<T>(member, key, where));
  return values;
}

void assign(const Key& key, const YAML::Node& node, const std::string& where) {
  const bool text =
      std::holds_alternative<std::string*>(key.value) || std::holds_alternative<OneOrMore>(key.value);
  if (node.IsNull() && text) return assign(key, YAML::Node(""), where);  // nothing after the colon
  std::visit(
      [&](const auto& target) {
        using T = Held<decltype(target)>;
        if constexpr (std::is_same_v<T, Choice>) {
          const auto& texts = key.allowed.choices;
          const auto text =
              std::find(texts.begin(), texts.end(), parse_scalar<std::string>(node, key, where));
          target.set(static_cast<size_t>(text - texts.begin()));
        } else if constexpr (std::is_same_v<T, Text>) {
          target.set(parse_scalar<std::string>(node, key, where));
        } else if constexpr (IsVector<T>::value) {
          if (!node.IsSequence()) {
            throw Error(where, fmt::format("{} is '{}'", key.name, shown(node)),
                        "it must be a " + type_text(key) + " such as [a, b]");
          }
          *target = parse_list<typename T::value_type>(node, key, where);
        } else if constexpr (std::is_same_v<T, OneOrMore>) {
          if (node.IsSequence()) {
            *target.texts = parse_list<std::string>(node, key, where);
          } else {
            *target.texts = {parse_scalar<std::string>(node, key, where)};
            if (target.texts->front().empty()) target.texts->clear();
          }
        } else if constexpr (std::is_same_v<T, std::optional<double>>) {
          if (node.IsScalar() && node.Scalar() == kAuto) {
            target->reset();
          } else {
            *target = parse_scalar<double>(node, key, where);
          }
        } else {
          *target = parse_scalar<T>(node, key, where);
        }
      },
      key.value);
}

const Key& find_key(const std::vector<Key>& keys, const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const auto& key : keys) {
    if (key.name == name) return key;
    names.push_back(key.name);
  }
  throw Error(where, fmt::format("unknown key '{}'", name),
              suggestion(name, names, /*far=*/true) + "'poem config' lists all");
}

bool is_section(const std::vector<Key>& keys, const std::string& name) {
  return std::any_of(keys.begin(), keys.end(),
                     [&](const Key& key) { return starts_with(key.name, name + "."); });
}

// How to assign a key of a section: the first that the value has, or that there is.
std::string example_of(const std::vector<Key>& keys, const std::string& section, const YAML::Node& value,
                       const std::string& given_to) {
  const auto own = std::find_if(keys.begin(), keys.end(),
                                [&](const Key& key) { return starts_with(key.name, section + "."); });
  std::string example = own->name + "=VALUE";
  if (value.IsMap() && value.size() > 0 && value.begin()->first.IsScalar() &&
      value.begin()->second.IsScalar())
    example = fmt::format("{}.{}={}", section, value.begin()->first.Scalar(), value.begin()->second.Scalar());
  return fmt::format("assign its keys one by one: {} {}", given_to, example);
}

void assign_tree(const std::vector<Key>& keys, const YAML::Node& node, const std::string& prefix,
                 const std::string& path, std::set<std::string>& seen) {
  for (const auto& item : node) {
    const std::string where = fmt::format("{}:{}", path, item.first.Mark().line + 1);
    if (!item.first.IsScalar()) {
      throw Error(where, fmt::format("'{}' is not a key", shown(item.first)), "write key: value");
    }
    const std::string name = prefix + item.first.as<std::string>();
    if (item.second.IsMap()) {
      assign_tree(keys, item.second, name + ".", path, seen);
      continue;
    }
    if (item.second.IsNull() && is_section(keys, name)) continue;  // all below it is commented out
    if (is_section(keys, name)) {
      throw Error(where, fmt::format("{} is '{}'", name, shown(item.second)),
                  "it is a section: write its keys below it, as 'poem config' does");
    }
    const Key& key = find_key(keys, name, where);
    if (!seen.insert(name).second) throw Error(where, "key '" + name + "' appears twice", "keep one");
    assign(key, item.second, where);
  }
}

YAML::Node load_map(const std::string& text, const std::string& path) {
  const YAML::Node root = load_yaml(path, text, "correct the line; 'poem config' prints a complete example");
  if (root.IsNull()) return YAML::Node(YAML::NodeType::Map);  // an empty file
  if (!root.IsMap()) throw Error(path, "is not a map of keys", "'poem config' prints an example");
  return root;
}

// Quoted where needed, also as a member of a list, where a comma or bracket would end the text.
std::string quoted(const std::string& text) {
  YAML::Emitter out;
  out << YAML::Flow << YAML::BeginSeq << text << YAML::EndSeq;
  const std::string list = out.c_str();
  return list.substr(1, list.size() - 2);
}

std::string number_text(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

template <class T>
std::string scalar_text(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return quoted(value);
  } else if constexpr (std::is_same_v<T, std::optional<double>>) {
    return value ? scalar_text(*value) : kAuto;
  } else {
    return fmt::format("{}", value);
  }
}

template <class T>
std::string list_text(const std::vector<T>& values) {
  std::vector<std::string> parts;
  for (const T& value : values) parts.push_back(scalar_text(value));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

}  // namespace

Allowed between(double low, double high) { return {low, high, {}}; }
Allowed at_least(double low) { return {low, std::numeric_limits<double>::infinity(), {}}; }
Allowed one_of(std::vector<std::string> choices) {
  Allowed allowed;
  allowed.choices = std::move(choices);
  return allowed;
}

void read_yaml(const std::vector<Key>& keys, const std::string& path) {
  read_yaml_text(keys, read_file(path), path);
}

void read_yaml_text(const std::vector<Key>& keys, const std::string& text, const std::string& where) {
  std::set<std::string> seen;
  assign_tree(keys, load_map(text, where), "", where, seen);
}

void read_yaml_key(const Key& key, const std::string& path) {
  if (const YAML::Node node = load_map(read_file(path), path)[key.name]) assign(key, node, path);
}

void set_key(const std::vector<Key>& keys, const std::string& assignment, const std::string& given_to) {
  const auto equals = assignment.find('=');
  const std::string where = given_to + " " + assignment;
  if (equals == std::string::npos) throw Error(where, "has no '='", "write key=value");
  const std::string name = assignment.substr(0, equals);
  const YAML::Node value = load_yaml(where, assignment.substr(equals + 1), "quote the value");
  if (is_section(keys, name))
    throw Error(where, "'" + name + "' is a section", example_of(keys, name, value, given_to));
  assign(find_key(keys, name, where), value, where);
}

std::string value_text(const Key& key) {
  return std::visit(
      [&](const auto& value) {
        using T = Held<decltype(value)>;
        if constexpr (std::is_same_v<T, Choice>) {
          return key.allowed.choices[value.get()];
        } else if constexpr (std::is_same_v<T, Text>) {
          return scalar_text(value.get());
        } else if constexpr (IsVector<T>::value) {
          return list_text(*value);
        } else if constexpr (std::is_same_v<T, OneOrMore>) {
          const std::vector<std::string>& texts = *value.texts;
          if (texts.size() > 1) return list_text(texts);
          return texts.empty() ? scalar_text(std::string()) : scalar_text(texts.front());
        } else {
          return scalar_text(*value);
        }
      },
      key.value);
}

std::string allowed_text(const Key& key) {
  const Allowed& allowed = key.allowed;
  if (!allowed.choices.empty()) return fmt::format("{}", fmt::join(allowed.choices, ", "));
  const std::string low = number_text(allowed.low), high = number_text(allowed.high);
  if (low.empty() && high.empty()) return "";
  if (high.empty()) return "at least " + low;
  if (low.empty()) return "at most " + high;
  return low + " … " + high;
}

std::string type_text(const Key& key) {
  return std::visit([](const auto& value) { return std::string(type_name<Held<decltype(value)>>()); },
                    key.value);
}

std::string to_yaml(const std::vector<Key>& keys, bool with_meaning) {
  std::string text, section;
  for (const auto& key : keys) {
    const auto dot = key.name.find('.');
    const std::string own = dot == std::string::npos ? "" : key.name.substr(0, dot);
    if (own != section && !own.empty()) text += own + ":\n";
    section = own;
    const std::string indent = own.empty() ? "" : "  ";
    if (with_meaning) {
      const std::string allowed = allowed_text(key);
      text += fmt::format("{}# {}{}\n", indent, key.meaning, allowed.empty() ? "" : " [" + allowed + "]");
    }
    text +=
        fmt::format("{}{}: {}\n", indent, own.empty() ? key.name : key.name.substr(dot + 1), value_text(key));
  }
  return text;
}

std::string to_markdown(const std::vector<Key>& keys) {
  std::string text = "| key | type | default | allowed | meaning |\n| --- | --- | --- | --- | --- |\n";
  for (const auto& key : keys) {
    text += fmt::format("| `{}` | {} | `{}` | {} | {} |\n", key.name, type_text(key), value_text(key),
                        allowed_text(key), key.meaning);
  }
  return text;
}

}  // namespace poem
