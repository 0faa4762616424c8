#include "core/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "poem/error.h"

namespace poem {
namespace {

constexpr size_t kMostLevels = 100;  // yaml-cpp itself stops at 500
constexpr int64_t kMostValues = 100000;

// How messages name a line. A text of one line, such as the value of an option, has no line number.
struct Place {
  std::string where;
  bool lines;

  std::string operator()(const YAML::Mark& mark) const {
    return lines ? fmt::format("{}:{}", where, mark.line + 1) : where;
  }
};

Error too_deep(const std::string& where) {
  return {where, fmt::format("is nested more than {} levels deep", kMostLevels), "write it flatter"};
}

// Visits every value as often as a reader that follows aliases would.
class Check {
 public:
  explicit Check(const Place& place) : place_(place) {}

  void operator()(const YAML::Node& node) {
    if (++values_ > kMostValues) {
      throw Error(place_(node.Mark()),
                  fmt::format("contains more than {} values once its aliases are expanded", kMostValues),
                  "remove aliases of aliases");
    }
    if (std::any_of(above_.begin(), above_.end(), [&](const YAML::Node& one) { return one.is(node); }))
      throw Error(place_(node.Mark()), "an anchor contains itself", "write the value out");
    if (above_.size() == kMostLevels) throw too_deep(place_(node.Mark()));
    above_.push_back(node);
    for (const auto& item : node) {
      if (node.IsMap()) {
        (*this)(item.first);
        (*this)(item.second);
      } else {
        (*this)(item);
      }
    }
    above_.pop_back();
  }

 private:
  const Place& place_;
  std::vector<YAML::Node> above_;  // what contains the node being looked at
  int64_t values_ = 0;
};

}  // namespace

YAML::Node load_yaml(const std::string& where, const std::string& text, const std::string& remedy) {
  const Place place{where, text.find('\n') != text.npos};
  std::vector<YAML::Node> documents;
  try {
    documents = YAML::LoadAll(text);
  } catch (const YAML::DeepRecursion& e) {
    throw too_deep(place(e.mark));
  } catch (const YAML::ParserException& e) {
    throw Error(place(e.mark), "is not valid YAML: " + e.msg, remedy);
  }
  if (documents.empty()) return {};
  if (documents.size() > 1) {
    throw Error(place(documents[1].Mark()), "a second YAML document begins",
                "keep one document in the file: remove the line ---");
  }
  Check{place}(documents.front());
  return documents.front();
}

}  // namespace poem
