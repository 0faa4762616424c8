// Things that are chosen by name: a table of (name, what it stands for). Entries of poem's own come first; a
// program may add others.
//
//   Registry<MinerFactory>& miners() {
//     static Registry<MinerFactory> miners("mining.miner", {{"random", make_random_miner}, …});
//     return miners;
//   }
//   miners().add("nearest", make_nearest);
//   std::unique_ptr<Miner> miner = miners().find("random")();
//
// A registry lives inside a function, so that it is there before whoever adds to it.
#pragma once
#include <algorithm>
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

  // A name that is taken is an Error. Not to be called while another thread uses the registry.
  void add(const std::string& name, Value value) {
    const std::vector<std::string> taken = names();
    if (name.empty()) throw Error(key_, "a registered name is empty", "choose a name");
    if (std::find(taken.begin(), taken.end(), name) != taken.end())
      throw Error(key_, "'" + name + "' is registered already", "choose another name");
    entries_.emplace_back(name, std::move(value));
  }

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
