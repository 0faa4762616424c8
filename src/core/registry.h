// Things that are chosen by name: a table of (name, what it stands for).
//
//   const Registry<Miner* (*)()> kMiners("mining.miner", {{"random", make_random}, {"thompson",
//   make_thompson}}); auto* miner = kMiners.find("random")();
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/text.h"
#include "poem/error.h"

namespace poem {

template <class Value>
class Registry {
 public:
  Registry(std::string key, std::vector<std::pair<std::string, Value>> entries)
      : key_(std::move(key)), entries_(std::move(entries)) {}

  // An Error that lists the known names if there is none like this.
  const Value& find(const std::string& name) const {
    for (const auto& entry : entries_) {
      if (entry.first == name) return entry.second;
    }
    throw Error(key_, "is '" + name + "'", suggestion(name, names()) + "known: " + listed(names()));
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : entries_) names.push_back(entry.first);
    return names;
  }

 private:
  std::string key_;
  std::vector<std::pair<std::string, Value>> entries_;
};

}  // namespace poem
