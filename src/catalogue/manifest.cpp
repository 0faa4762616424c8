#include "catalogue/manifest.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/asset.h"
#include "core/file.h"
#include "core/text.h"
#include "core/yaml.h"
#include "poem/error.h"

namespace poem {
namespace {

// One map of the file. It remembers every key that is asked for, so that done() can report an unknown one.
class Entry {
 public:
  Entry(const std::string& where, const YAML::Node& node) : where_(where), node_(node) {
    if (!node.IsMap()) fail("is not a map of keys");
  }

  YAML::Node get(const std::string& key) {
    known_.push_back(key);
    return node_[key];
  }

  template <typename Value>
  Value get(const std::string& key, const Value& otherwise) {
    const YAML::Node value = get(key);
    if (!value) return otherwise;
    try {
      return value.as<Value>();
    } catch (const YAML::Exception&) {
      fail(fmt::format("'{}' is of the wrong kind", key));
    }
  }

  std::string need(const std::string& key) {
    const auto value = get<std::string>(key, "");
    if (value.empty()) fail(fmt::format("has no '{}'", key));
    return value;
  }

  void done() const {
    for (const auto& pair : node_) {
      const auto key = pair.first.as<std::string>();
      if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
        fail(fmt::format("has an unknown key '{}'; {}known: {}", key, suggestion(key, known_),
                         listed(known_)));
      }
    }
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(where_, what, "see the top of src/catalogue/manifest.yaml for the form");
  }

 private:
  std::string where_;
  YAML::Node node_;
  std::vector<std::string> known_;
};

std::string checksum_of(Entry& entry) {
  constexpr std::pair<const char*, size_t> kDigits[] = {{"sha256", 64}, {"md5", 32}};
  std::string checksum;
  for (const auto& [algorithm, digits] : kDigits) {
    const auto value = entry.get<std::string>(algorithm, "");
    if (value.empty()) continue;
    if (value.size() != digits || value.find_first_not_of("0123456789abcdef") != value.npos) {
      entry.fail(fmt::format("'{}' is not {} hexadecimal digits", algorithm, digits));
    }
    if (checksum.empty()) checksum = fmt::format("{}:{}", algorithm, value);
  }
  return checksum;
}

KnownFile parse_file(const std::string& where, const YAML::Node& node) {
  Entry entry(where, node);
  KnownFile file;
  file.name = entry.need("file");
  if (file.name.find('/') != file.name.npos) entry.fail("'file' is not the name of a file");
  if (const auto bytes = entry.get<int64_t>("bytes", 0); bytes > 0) file.least = file.most = bytes;
  const auto range = entry.get<std::vector<int64_t>>("between", {file.least, file.most});
  if (range.size() != 2 || range[0] > range[1]) entry.fail("'between' is not [least, most]");
  file.least = range[0];
  file.most = range[1];
  file.checksum = checksum_of(entry);
  file.sources = entry.get<std::vector<std::string>>("sources", {});
  for (const std::string& url : file.sources) {
    if (url.empty()) entry.fail("'sources' contains an empty URL");
  }
  entry.done();
  return file;
}

KnownSet parse_set(const std::string& where, const std::string& name, const YAML::Node& node) {
  Entry entry(where, node);
  KnownSet set;
  set.name = name;
  set.title = entry.need("title");
  set.use = entry.get<std::string>("use", "");
  set.withdrawn = entry.get<std::string>("withdrawn", "");
  set.images = entry.get<int64_t>("images", 0);
  set.subset = entry.get<int64_t>("subset", 0);
  for (const auto& file : entry.get("downloads")) set.downloads.push_back(parse_file(where, file));
  for (const auto& file : entry.get("unpacked")) set.unpacked.push_back(parse_file(where, file));
  set.folders = entry.get<std::vector<std::string>>("folders", {});
  entry.done();
  if (set.downloads.empty()) entry.fail("has no 'downloads'");
  if (!set.folders.empty() && set.images <= 0) entry.fail("has 'folders' but no 'images' to count");
  return set;
}

Manifest parse(const std::string& path, const std::string& text) {
  try {
    Manifest manifest;
    for (const auto& pair : load_yaml(path, text, "correct the line")) {
      const auto name = pair.first.as<std::string>();
      manifest.push_back(parse_set(path + ": " + name, name, pair.second));
    }
    if (manifest.empty()) throw Error(path, "contains no data set", "see poem data list");
    return manifest;
  } catch (const YAML::Exception& error) {
    throw Error(path, fmt::format("is not YAML of the manifest's form: {}", error.what()),
                "correct the file");
  }
}

}  // namespace

Manifest known_sets() { return parse("manifest.yaml", std::string(asset("manifest.yaml"))); }

Manifest read_manifest(const std::string& path) { return parse(path, read_file(path)); }

const KnownSet& find_set(const Manifest& manifest, const std::string& name) {
  std::vector<std::string> names;
  for (const KnownSet& set : manifest) {
    if (set.name == name) return set;
    names.push_back(set.name);
  }
  throw Error("data set '" + name + "'", "is unknown", suggestion(name, names) + "known: " + listed(names));
}

}  // namespace poem
