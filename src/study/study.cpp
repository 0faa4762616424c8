#include "study/study.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <type_traits>

#include "core/file.h"
#include "core/named_path.h"
#include "core/registry.h"
#include "core/text.h"
#include "core/yaml.h"
#include "poem/error.h"
#include "poem/random.h"
#include "readers/source.h"
#include "train/config_keys.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

struct Figure {
  const char* title;
  bool lower_is_better;
};

const Registry<Figure> kFigures("column", {{"fpr95", {"FPR95", true}},
                                           {"auroc", {"AUROC", false}},
                                           {"aupr_in", {"AUPR-in", false}},
                                           {"aupr_out", {"AUPR-out", false}},
                                           {"detection_error", {"DetErr", true}},
                                           {"id_accuracy", {"ID acc", false}},
                                           {"minutes", {"minutes", true}}});

// A map in the file. An unknown key is an Error.
class Section {
 public:
  Section(const std::string& path, const YAML::Node& node, const std::vector<std::string>& known)
      : path_(path), node_(node) {
    if (!node.IsMap()) fail(node, "is not a map of keys", "write key: value");
    std::set<std::string> seen;
    for (const auto& item : node) {
      const auto key = item.first.as<std::string>("");
      if (std::count(known.begin(), known.end(), key) == 0) {
        fail(item.first, fmt::format("unknown key '{}'", key),
             suggestion(key, known) + "known: " + listed(known));
      }
      if (!seen.insert(key).second) fail(item.first, fmt::format("key '{}' appears twice", key), "keep one");
    }
  }

  YAML::Node operator[](const char* key) const { return node_[key]; }

  std::string text(const char* key) const {
    const YAML::Node node = required(key);
    if (!node.IsScalar() || node.Scalar().empty())
      fail(node, fmt::format("{} is not text", key), fmt::format("write {}: and some words", key));
    return node.Scalar();
  }

  YAML::Node list(const char* key) const {
    const YAML::Node node = required(key);
    if (!node.IsSequence() || node.size() == 0) {
      fail(node, fmt::format("{} is not a list with entries", key), "write [a, b], or one entry per line");
    }
    return node;
  }

  [[noreturn]] void fail(const YAML::Node& node, const std::string& what, const std::string& remedy) const {
    const int line = node.Mark().line + 1;  // 0 in an empty file
    throw Error(line > 0 ? fmt::format("{}:{}", path_, line) : path_, what, remedy);
  }

 private:
  YAML::Node required(const char* key) const {
    if (!node_[key]) fail(node_, fmt::format("{} is missing", key), "docs/studies.md explains it");
    return node_[key];
  }

  const std::string& path_;
  YAML::Node node_;
};

YAML::Node load(const std::string& path) { return load_yaml(path, read_file(path), "correct the line"); }

template <class T>
T number(const Section& section, const YAML::Node& node, const std::string& what) {
  try {
    return node.as<T>();
  } catch (const YAML::Exception&) {
    section.fail(node, fmt::format("{} is '{}'", what, YAML::Dump(node)),
                 std::is_integral_v<T> ? "it must be a whole number" : "it must be a number");
  }
}

// {train.epochs: 3, data: {ood: [a, b]}} → "train.epochs=3", "data.ood=[a, b]"
void flatten(const YAML::Node& node, const std::string& prefix, std::vector<std::string>& set) {
  for (const auto& item : node) {
    const std::string key = prefix + item.first.as<std::string>("");
    if (item.second.IsMap()) {
      flatten(item.second, key + ".", set);
      continue;
    }
    YAML::Emitter value;
    value.SetSeqFormat(YAML::Flow);
    if (!item.second.IsNull()) value << item.second;
    set.push_back(key + "=" + value.c_str());
  }
}

std::vector<std::string> overrides(const Section& section) {
  std::vector<std::string> set;
  const YAML::Node node = section["set"];
  if (!node) return set;
  if (!node.IsMap()) section.fail(node, "set is not a map of keys", "write set: {train.epochs: 3}");
  flatten(node, "", set);
  for (const std::string& assignment : set) {
    if (assignment.rfind("seed=", 0) == 0) section.fail(node, "set contains seed", "use the study's seeds");
  }
  return set;
}

template <class Named>
void check_new_name(const Section& section, const std::vector<Named>& others, const std::string& name) {
  for (const auto& other : others) {
    if (other.name == name) section.fail(section["name"], fmt::format("'{}' appears twice", name), "rename");
  }
}

// An Error names the line.
StudyColumn column_at(const Section& section, const YAML::Node& node) {
  try {
    return study_column(node.as<std::string>(""));
  } catch (const Error& e) {
    section.fail(node, e.what(), "");
  }
}

std::map<std::string, double> paper_figures(const Section& section, const YAML::Node& node) {
  if (!node.IsMap()) section.fail(node, "paper is not a map", "write paper: {fpr95: 2.54}");
  std::map<std::string, double> figures;
  for (const auto& item : node) {
    const std::string key = column_at(section, item.first).key;
    figures[key] = number<double>(section, item.second, "paper." + key);
  }
  return figures;
}

// `paper` holds figures or, in a study with settings, figures per setting.
void read_paper(const Section& section, const std::vector<StudySetting>& settings, StudyMethod& method) {
  const YAML::Node node = section["paper"];
  if (!node) return;
  if (settings.front().name.empty()) {
    method.paper[""] = paper_figures(section, node);
    return;
  }
  std::vector<std::string> names;
  for (const StudySetting& setting : settings) names.push_back(setting.name);
  for (const auto& item : node) {
    const auto name = item.first.as<std::string>("");
    if (std::count(names.begin(), names.end(), name) == 0) {
      section.fail(item.first, fmt::format("paper names an unknown setting '{}'", name),
                   "known: " + listed(names));
    }
    method.paper[name] = paper_figures(section, item.second);
  }
}

void read_settings(const Section& root, Study& study) {
  if (!root["settings"]) {
    study.settings.emplace_back();
    return;
  }
  for (const auto& node : root.list("settings")) {
    const Section section(study.path, node, {"name", "set"});
    const std::string name = section.text("name");
    check_new_name(section, study.settings, name);
    study.settings.push_back({name, overrides(section)});
  }
}

void read_methods(const Section& root, Study& study) {
  for (const auto& node : root.list("methods")) {
    const Section section(study.path, node, {"name", "set", "score", "paper"});
    StudyMethod method{section.text("name"), overrides(section), {}};
    check_new_name(section, study.methods, method.name);
    if (section["score"]) method.set.push_back("score=" + section.text("score"));
    read_paper(section, study.settings, method);
    study.methods.push_back(std::move(method));
  }
}

void read_seeds(const Section& root, Study& study) {
  for (const auto& node : root.list("seeds")) {
    const auto seed = number<int64_t>(root, node, "a seed");
    if (seed < 0) root.fail(node, fmt::format("seed {} is negative", seed), "seeds are 0, 1, 2, …");
    if (std::count(study.seeds.begin(), study.seeds.end(), seed) > 0) {
      root.fail(node, fmt::format("seed {} appears twice", seed), "keep one");
    }
    study.seeds.push_back(seed);
  }
}

void read_columns(const Section& root, Study& study) {
  if (!root["columns"]) {
    for (const char* key : {"fpr95", "auroc", "aupr_in", "id_accuracy"})
      study.columns.push_back(study_column(key));
    return;
  }
  for (const auto& node : root.list("columns")) {
    const StudyColumn column = column_at(root, node);
    for (const StudyColumn& other : study.columns) {
      if (other.key == column.key)
        root.fail(node, fmt::format("column {} appears twice", column.key), "keep one");
    }
    study.columns.push_back(column);
  }
}

// The config that all cells start from. It is checked here, so that its errors are not blamed on a cell.
std::string read_base(const Section& root, const std::string& path) {
  const std::string base = (fs::path(path).parent_path() / root.text("base")).lexically_normal().string();
  try {
    parse_config(base);
  } catch (const Error& e) {
    root.fail(root["base"], fmt::format("base: {}", e.what()), "");
  }
  return base;
}

// The cell's complete config. A GPU repeats its bits unless the study's `set` says otherwise.
Config cell_config(const Study& study, const StudyCell& cell, const Conditions& conditions) {
  std::vector<std::string> set;
  if (conditions.device != "cpu") set.emplace_back("train.deterministic=true");
  const auto add = [&](const std::vector<std::string>& more) {
    set.insert(set.end(), more.begin(), more.end());
  };
  add(study.set);
  add(study.settings[cell.setting].set);
  add(study.methods[cell.method].set);
  add({fmt::format("seed={}", cell.seed)});
  if (study.curves > 0) add({fmt::format("train.evaluate_every={}", study.curves)});
  return read_config(study.base, set, "set");
}

void check_cell(const Study& study, const Config& config) {
  if (config.data.test.empty()) throw Error("data.test", "is empty", "name the test images in set");
  std::vector<std::string> sets;
  for (const auto& [name, path] : named_paths("data.ood", config.data.ood)) sets.push_back(name);
  for (const StudyColumn& column : study.columns) {
    if (!column.set.empty() && std::count(sets.begin(), sets.end(), column.set) == 0) {
      throw Error("column " + column.key, "data.ood has no such set", "its sets: " + listed(sets));
    }
  }
}

// Clears what the weights do not depend on. The score stays in the network's config, where it decides the
// saved threshold; but cells with different scores share a network unless it is mined by the score.
Config training_config(const Study& study, Config config) {
  if (study.curves == 0) {
    config.data.test.clear();
    config.data.ood.clear();
  }
  return config;
}

// A short name for a text: 16 hexadecimal digits.
std::string text_hash(const std::string& text) { return fmt::format("{:016x}", Stream(0, text).bits64()); }

std::string conditions_text(const Conditions& conditions, const DataSettings& data) {
  std::vector<std::string> sources = {data.train, data.test};
  sources.insert(sources.end(), data.outliers.begin(), data.outliers.end());
  for (const NamedPath& set : named_paths("data.ood", data.ood)) sources.push_back(set.path);
  const bool drawn = std::any_of(sources.begin(), sources.end(), is_drawn);
  return fmt::format("device {}\n", conditions.device) +
         (drawn ? fmt::format("world {}\n", conditions.world) : "");
}

// The images that a cell is scored on, as text.
std::string test_text(const DataSettings& data, const Conditions& conditions) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", data.folder, data.test, fmt::join(data.ood, "\n"), data.size,
                     data.skip_bad, conditions_text(conditions, data));
}

size_t find_or_add_network(const Study& study, const Config& config, const Conditions& conditions,
                           StudyPlan& plan) {
  const std::string identity =
      training_text(study, config) + conditions_text(conditions, training_config(study, config).data);
  const std::string name = fmt::format("{}-{}-seed{}-{}", config.objective.name, config.mining.miner,
                                       config.seed, text_hash(identity));
  const auto found = std::find_if(plan.networks.begin(), plan.networks.end(),
                                  [&](const StudyNetwork& network) { return network.name == name; });
  if (found != plan.networks.end()) return static_cast<size_t>(found - plan.networks.begin());
  plan.networks.push_back({name, training_config(study, config)});
  return plan.networks.size() - 1;
}

}  // namespace

StudyColumn study_column(const std::string& key) {
  const auto dot = key.rfind('.');
  const std::string set = dot == std::string::npos ? "" : key.substr(0, dot);
  const std::string figure = dot == std::string::npos ? key : key.substr(dot + 1);
  const Figure& found = kFigures.find(figure);
  if (!set.empty() && (figure == "id_accuracy" || figure == "minutes")) {
    throw Error("column " + key, fmt::format("names an OOD set, but {} has none", figure), "write " + figure);
  }
  return {key, set, figure, set.empty() ? found.title : set + " " + found.title, found.lower_is_better};
}

bool is_study_file(const std::string& path) {
  const std::string text = read_file(path);
  try {
    const YAML::Node root = load_yaml(path, text, "");
    return root.IsMap() && root["base"];
  } catch (const Error&) {  // read_study() or read_config() will say what is wrong
    return false;
  }
}

Study read_study(const std::string& path) {
  Study study;
  study.path = path;
  const YAML::Node file = load(path);
  if (file.IsMap() && file["data"] && !file["base"]) {
    throw Error(path, "is the config of one training, not a study",
                "run it with: poem train " + shell_quoted(path));
  }
  const Section root(study.path, file,
                     {"title", "base", "seeds", "set", "settings", "methods", "columns", "curves"});
  study.title = root.text("title");
  study.base = read_base(root, path);
  study.set = overrides(root);
  if (root["curves"]) {
    study.curves = number<int64_t>(root, root["curves"], "curves");
    if (study.curves < 1)
      root.fail(root["curves"], "curves is below 1", "give a number of epochs, or leave it out");
  }
  read_seeds(root, study);
  read_settings(root, study);
  read_methods(root, study);
  read_columns(root, study);
  return study;
}

StudyPlan make_plan(const Study& study, const Conditions& conditions) {
  StudyPlan plan;
  for (const int64_t seed : study.seeds) {
    for (size_t setting = 0; setting < study.settings.size(); ++setting) {
      for (size_t method = 0; method < study.methods.size(); ++method) {
        StudyCell cell{setting, method, 0, seed, {}, {}};
        try {
          cell.config = cell_config(study, cell, conditions);
          check_cell(study, cell.config);
        } catch (const Error& e) {
          throw e.within(fmt::format("{}: {}", study.path, cell_name(study, cell)));
        }
        cell.network = find_or_add_network(study, cell.config, conditions, plan);
        cell.tests = text_hash(test_text(cell.config.data, conditions));
        plan.cells.push_back(std::move(cell));
      }
    }
  }
  return plan;
}

std::string cell_name(const Study& study, size_t setting, size_t method, int64_t seed) {
  const std::string& where = study.settings[setting].name;
  return fmt::format("{}{}, seed {}", study.methods[method].name, where.empty() ? "" : ", " + where, seed);
}

std::string cell_name(const Study& study, const StudyCell& cell) {
  return cell_name(study, cell.setting, cell.method, cell.seed);
}

std::string training_text(const Study& study, const Config& config) {
  Config ours = training_config(study, config), defaults;
  defaults.objective = resolved(defaults.objective);  // as in a config that was read
  const std::string& miner = ours.mining.miner;
  const bool mined_by_score = miner != "none" && make_miner(miner)->uses_score();
  if (study.curves == 0 && !mined_by_score) ours.score = defaults.score;
  const auto values = keys(ours), usual = keys(defaults);
  // Defaults are left out, so that a later version of poem with more keys still recognises the network.
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string value = value_text(values[i]);
    if (value != value_text(usual[i])) text += fmt::format("{}: {}\n", values[i].name, value);
  }
  return text;
}

}  // namespace poem
