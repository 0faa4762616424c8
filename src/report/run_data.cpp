#include "report/run_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <sstream>

#include "core/file.h"
#include "core/safetensors.h"
#include "core/scores_file.h"
#include "core/text.h"
#include "core/yaml.h"
#include "poem/config.h"
#include "poem/error.h"
#include "report/words.h"
#include "train/run_folder.h"

namespace poem {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kMinedSheets = 12;  // shown in a report: of the first, the last, and epochs between them

// The keys of nested maps joined by dots, values as YAML.
void flatten(const std::string& prefix, const YAML::Node& node,
             std::vector<std::pair<std::string, std::string>>& keys) {
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) continue;
    const std::string key = prefix + entry.first.Scalar();
    if (entry.second.IsMap()) {
      flatten(key + ".", entry.second, keys);
    } else {
      YAML::Emitter text;
      text << YAML::Flow << entry.second;
      keys.emplace_back(key, entry.second.IsScalar() ? entry.second.Scalar() : text.c_str());
    }
  }
}

double number_at(const json& from, const std::string& pointer) {
  const json::json_pointer place(pointer);
  return from.contains(place) && from[place].is_number() ? from[place].get<double>() : kNone;
}

// The classes and the square matrix that to_json_text(Results) writes; empty if they are missing or do not
// fit together.
std::optional<Confusion> confusion_from(const ordered_json& from) {
  if (!from.contains("classes") || !from.contains("confusion")) return std::nullopt;
  try {
    Confusion confusion{{}, from["confusion"].get<std::vector<std::vector<int64_t>>>()};
    for (const ordered_json& entry : from["classes"])
      confusion.class_names.push_back(entry.at("name").get<std::string>());
    const size_t classes = confusion.class_names.size();
    const auto fits = [&](const std::vector<int64_t>& row) {
      return row.size() == classes && std::all_of(row.begin(), row.end(), [](int64_t n) { return n >= 0; });
    };
    if (confusion.images.size() == classes &&
        std::all_of(confusion.images.begin(), confusion.images.end(), fits))
      return confusion;
  } catch (const ordered_json::exception&) {
  }
  return std::nullopt;
}

// Reads what to_json(Results) writes; empty if it contains no set. Figures that are not numbers become
// NaN.
std::optional<Results> results_from(const ordered_json& from) {
  if (!from.is_object() || !from.contains("sets") || !from["sets"].is_object()) return std::nullopt;
  const auto metrics_of = [](const ordered_json& entry) {
    const auto number = [&](const char* key) {
      return entry.is_object() && entry.contains(key) && entry[key].is_number() ? entry[key].get<double>()
                                                                                : kNone;
    };
    OodMetrics m;
    m.fpr95 = number("fpr95");
    m.auroc = number("auroc");
    m.aupr_in = number("aupr_in");
    m.aupr_out = number("aupr_out");
    m.detection_error = number("detection_error");
    const auto count = [&](const char* key) {
      return static_cast<int64_t>(std::clamp(number(key), 0.0, 1e15));
    };
    m.id_count = std::isfinite(number("id_count")) ? count("id_count") : 0;
    m.ood_count = std::isfinite(number("ood_count")) ? count("ood_count") : 0;
    return m;
  };
  std::vector<SetResult> sets;
  for (const auto& [name, entry] : from["sets"].items()) sets.push_back({name, metrics_of(entry)});
  if (sets.empty()) return std::nullopt;
  std::optional<double> accuracy;
  if (from.contains("id_accuracy") && from["id_accuracy"].is_number())
    accuracy = from["id_accuracy"].get<double>();
  Results results = make_results(std::move(sets), accuracy);
  results.confusion = confusion_from(from);
  return results;
}

class Reader {
 public:
  explicit Reader(const std::string& folder) { run_.folder = folder; }

  RunData operator()() {
    read_config();
    read_metrics();
    read_results();
    read_scores();
    read_detector();
    read_checkpoint();
    read_gallery();
    note_progress();
    return std::move(run_);
  }

 private:
  std::string path(const std::string& name) const { return run_.folder + "/" + name; }
  bool has(const std::string& name) const { return fs::is_regular_file(path(name)); }
  void note(const std::string& text) { run_.notes.push_back(text); }

  // Calls read(). If it throws because the file is damaged, that becomes a note.
  template <class Read>
  void attempt(const std::string& name, Read read) {
    try {
      read();
    } catch (const Error& error) {
      note(error.what());
    } catch (const json::exception&) {
      note(name + " is damaged: it is not JSON of the form expected.");
    } catch (const YAML::Exception& error) {
      note(fmt::format("{} is damaged: {}.", name, error.what()));
    }
  }

  void read_config() {
    if (!has(RunFolder::kConfig)) return note("config.yaml is missing: what was trained is unknown.");
    attempt(RunFolder::kConfig, [&] {
      run_.config_text = read_file(path(RunFolder::kConfig));
      run_.config = config_entries(run_.config_text);
    });
    if (const std::string format = run_.setting("format"); format != std::to_string(kRunFormat)) {
      note(fmt::format("The run has format {}, but this poem knows format {}: it shows what it understands.",
                       format.empty() ? "unknown" : format, kRunFormat));
    }
  }

  void read_metrics() {
    if (!has(RunFolder::kMetrics)) return note("metrics.jsonl is missing: there are no figures per epoch.");
    std::istringstream text(read_file(path(RunFolder::kMetrics)));
    int64_t number = 0, bad = 0, first_bad = 0;
    for (std::string line; std::getline(text, line);) {
      ++number;
      json entry = json::parse(line, nullptr, false);
      if (entry.is_object() && std::isfinite(number_at(entry, "/epoch"))) {
        run_.epochs.push_back(std::move(entry));
      } else if (++bad == 1) {
        first_bad = number;
      }
    }
    if (bad == 1) note(fmt::format("metrics.jsonl: line {} is damaged.", first_bad));
    if (bad > 1) {
      note(fmt::format("metrics.jsonl: {} of {} lines are damaged, the first is line {}.", bad, number,
                       first_bad));
    }
  }

  void read_results() {
    if (has(RunFolder::kResults)) {
      attempt(RunFolder::kResults, [&] {
        run_.results = results_from(ordered_json::parse(read_file(path(RunFolder::kResults))));
        if (!run_.results) note("results.json contains no figures of a test set.");
      });
    }
    for (auto line = run_.epochs.rbegin(); !run_.results && line != run_.epochs.rend(); ++line) {
      if (!line->contains("results")) continue;
      run_.results = results_from(ordered_json::parse((*line)["results"].dump()));
      if (run_.results) run_.results_epoch = static_cast<int64_t>(number_at(*line, "/epoch"));
    }
  }

  void read_scores() {
    if (!run_.results || run_.results_epoch != 0) return;
    std::vector<std::string> names = {"id"};
    for (const SetResult& set : run_.results->sets) names.push_back(set.name);
    for (const std::string& name : names) {
      const std::string file = fmt::format("{}/{}.npy", RunFolder::kScores, name);
      if (name.find('/') != name.npos || !has(file)) {
        note(file + " is missing: there are no histograms or curves of its scores.");
      } else {
        attempt(file, [&] {
          const std::vector<double> scores = poem::read_scores(path(file));  // of a file of float32
          run_.scores.push_back({name, {scores.begin(), scores.end()}});
          std::sort(run_.scores.back().scores.begin(), run_.scores.back().scores.end());
        });
      }
      if (run_.scores.empty()) return;  // without ID scores there is nothing to compare the others with
    }
    if (run_.scores.size() == 1) run_.scores.clear();  // ID scores alone cannot be compared either
  }

  void read_detector() {
    run_.has_detector = has(RunFolder::kDetector);
    if (!run_.has_detector) return;
    attempt(RunFolder::kDetector, [&] {
      const json about = json::parse(read_safetensors(path(RunFolder::kDetector)).text("detector"));
      if (about.contains("threshold") && about["threshold"].is_number()) run_.threshold = about["threshold"];
      if (about.contains("calibration")) {
        const double images =
            std::fmin(std::fmax(number_at(about, "/calibration/images"), 0), 1e18);  // NaN becomes 0
        const Calibration found{number_at(about, "/calibration/tpr"), static_cast<int64_t>(images)};
        if (is_possible(found)) run_.calibration = found;
      }
      if (!run_.threshold) note("The detector has no threshold: data.validation held out no image.");
    });
  }

  void read_checkpoint() {
    const std::string name = RunFolder::kCheckpoint;
    if (!has(name)) return;
    attempt(name, [&] {
      const TensorFile file = read_safetensors(path(name));
      run_.surroundings.emplace_back("poem", file.text("poem"));
      const json about = json::parse(file.text("surroundings"));
      for (const auto& [key, title] : std::map<std::string, std::string>{{"device", "Device"},
                                                                         {"threads", "Threads"},
                                                                         {"cpu_capability", "CPU capability"},
                                                                         {"libtorch", "LibTorch"}}) {
        if (!about.contains(key)) continue;
        run_.surroundings.emplace_back(
            title, about[key].is_string() ? about[key].get<std::string>() : about[key].dump());
      }
    });
  }

  void read_gallery() {
    if (!fs::is_directory(path(RunFolder::kGallery))) {
      const bool points = run_.setting("data.size") == "1";  // which have no pictures
      if (run_.results && run_.results_epoch == 0 && !points)
        note("gallery/ is missing: there are no pictures.");
      return;
    }
    std::vector<std::string> mined, test;
    for (const auto& entry : fs::directory_iterator(path(RunFolder::kGallery))) {
      if (entry.path().extension() != ".png") continue;
      const std::string name = entry.path().stem().string();
      (name.rfind("mined-", 0) == 0 ? mined : test).push_back(name);
    }
    std::sort(mined.begin(), mined.end());
    std::sort(test.begin(), test.end());
    for (const std::string& name : spread(mined)) read_sheet(name, run_.mined);
    for (const std::string& name : test) read_sheet(name, run_.test);
  }

  static std::vector<std::string> spread(const std::vector<std::string>& names) {
    if (names.size() <= kMinedSheets) return names;
    std::vector<std::string> some;
    for (size_t i = 0; i < kMinedSheets; ++i)
      some.push_back(names[i * (names.size() - 1) / (kMinedSheets - 1)]);
    return some;
  }

  void read_sheet(const std::string& name, std::vector<Sheet>& sheets) {
    const std::string stem = std::string(RunFolder::kGallery) + "/" + name;
    attempt(stem + ".json", [&] {
      json list = json::parse(read_file(path(stem + ".json")));
      if (list.at("tile").get<int64_t>() < 1 || list.at("columns").get<int64_t>() < 1 ||
          !list.at("tiles").is_array())
        return note(stem + ".json is damaged: it does not say what the tiles are.");
      sheets.push_back({name, read_file(path(stem + ".png")), std::move(list)});
    });
  }

  void note_progress() {
    const auto done = static_cast<int64_t>(run_.epochs.size());
    if (!run_.finished() && run_.setting("format") == std::to_string(kRunFormat)) {
      note(fmt::format("If it was stopped, continue it with: poem train --resume {}",
                       shell_quoted(run_.folder)));
    } else if (run_.finished() && has(RunFolder::kMetrics) && done < run_.planned_epochs()) {
      note(fmt::format("metrics.jsonl has only {} of {}.", done, counted(run_.planned_epochs(), "epoch")));
    }
  }

  RunData run_;
};

}  // namespace

std::string RunData::name() const {
  const fs::path path = fs::absolute(folder).lexically_normal();  // "runs/mine/" and "." have no last part
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

std::string RunData::setting(const std::string& key) const {
  for (const auto& [name, value] : config) {
    if (name == key) return value;
  }
  return "";
}

std::string RunData::progress() const {
  const int64_t planned = planned_epochs();
  return planned > 0 ? fmt::format("{} of {} done", epochs.size(), counted(planned, "epoch"))
                     : counted(epochs.size(), "epoch") + " done";
}

int64_t RunData::planned_epochs() const {
  return std::strtoll(setting("train.epochs").c_str(), nullptr, 10) +
         std::strtoll(setting("train.pretrain").c_str(), nullptr, 10);
}

std::vector<double> RunData::by_epoch(const std::string& pointer, double factor) const {
  std::vector<double> values;
  for (const json& line : epochs) values.push_back(factor * number_at(line, pointer));
  return values;
}

std::vector<double> RunData::epoch_numbers() const { return by_epoch("/epoch"); }

std::vector<std::pair<std::string, std::string>> config_entries(const std::string& yaml) {
  std::vector<std::pair<std::string, std::string>> entries;
  flatten("", load_yaml("config.yaml", yaml, "correct the line"), entries);
  return entries;
}

RunData read_run(const std::string& folder) {
  if (!fs::is_directory(folder)) throw Error(folder, "is not a folder", "name the folder of a training");
  if (const RunFolder run(folder); !run.is_run() && !fs::exists(run.metrics)) {
    throw Error(folder, "is not a run: it has neither config.yaml nor metrics.jsonl",
                "name the folder of a training");
  }
  return Reader(folder)();
}

}  // namespace poem
