#include "study/study_results.h"

#include <fmt/format.h>

#include <cmath>

#include "core/file.h"
#include "core/json_text.h"
#include "core/text.h"
#include "poem/error.h"

namespace poem {
namespace {

using nlohmann::ordered_json;

constexpr const char* kFigures[] = {"fpr95", "auroc", "aupr_in", "aupr_out", "detection_error"};
constexpr const char* kFormat = "poem-study-1";
constexpr const char* kCsvFigures =
    "set,fpr95,auroc,aupr_in,aupr_out,detection_error,id_accuracy,id_count,ood_count";

// Lines with the columns kCsvFigures, each between `start` and `end`.
std::string csv_lines(const std::string& start, const ordered_json& results, const std::string& end) {
  const ordered_json& accuracy = results.at("id_accuracy");
  std::string csv;
  const auto add = [&](const std::string& set, const ordered_json& figures, const std::string& counts) {
    csv += fmt::format("{},{}", start, csv_field(set));
    for (const char* figure : kFigures) {
      const ordered_json& value = figures.at(figure);
      csv += value.is_null() ? ",NA" : fmt::format(",{}", value.get<double>());
    }
    csv += fmt::format(",{},{}{}\n", accuracy.is_null() ? "" : fmt::format("{}", accuracy.get<double>()),
                       counts, end);
  };
  for (const auto& [name, figures] : results.at("sets").items()) {
    add(name, figures,
        fmt::format("{},{}", figures.at("id_count").get<int64_t>(), figures.at("ood_count").get<int64_t>()));
  }
  add("mean", results.at("mean"), ",");
  return csv;
}

std::string csv_start(const Study& study, const CellResult& cell) {
  return fmt::format("{},{},{}", csv_field(study.settings[cell.setting].name),
                     csv_field(study.methods[cell.method].name), cell.seed);
}

ordered_json or_null(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

template <class Named>
std::vector<std::string> names(const std::vector<Named>& all) {
  std::vector<std::string> names;
  for (const Named& one : all) names.push_back(one.name);
  return names;
}

ordered_json cell_json(const Study& study, size_t setting, size_t method, int64_t seed) {
  return {{"setting", study.settings[setting].name}, {"method", study.methods[method].name}, {"seed", seed}};
}

ordered_json table_json(const Study& study, const std::vector<CellResult>& results) {
  ordered_json rows = ordered_json::array();
  for (size_t setting = 0; setting < study.settings.size(); ++setting) {
    for (size_t method = 0; method < study.methods.size(); ++method) {
      const std::string& name = study.settings[setting].name;
      ordered_json row = {{"setting", name}, {"method", study.methods[method].name}};
      for (const StudyColumn& column : study.columns) {
        const Summary summary = summarise(results, setting, method, column);
        row[column.key] = {{"mean", or_null(summary.mean)},
                           {"deviation", or_null(summary.deviation)},
                           {"seeds", summary.seeds},
                           {"paper", or_null(paper_figure(study, setting, method, column))}};
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

// The position of the entry with this name; `path` is the file that mentions it.
template <class Named>
size_t position(const std::string& path, const std::vector<Named>& all, const std::string& name) {
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].name == name) return i;
  }
  throw Error(path, fmt::format("mentions '{}', which it does not list", name),
              "run poem study again: it writes the file again");
}

// The part of the study that its results describe.
Study study_of(const std::string& path, const ordered_json& json) {
  Study study;
  json.at("title").get_to(study.title);
  json.at("seeds").get_to(study.seeds);
  for (const ordered_json& name : json.at("settings")) study.settings.push_back({name, {}});
  for (const ordered_json& name : json.at("methods")) study.methods.push_back({name, {}, {}});
  for (const ordered_json& key : json.at("columns")) study.columns.push_back(study_column(key));
  for (const ordered_json& row : json.at("table")) {
    auto& paper = study.methods[position(path, study.methods, row.at("method"))].paper[row.at("setting")];
    for (const StudyColumn& column : study.columns) {
      const ordered_json& figure = row.at(column.key).at("paper");
      if (!figure.is_null()) paper[column.key] = figure.get<double>();
    }
  }
  return study;
}

CellResult cell_of(const std::string& path, const Study& study, const ordered_json& json) {
  CellResult cell{position(path, study.settings, json.at("setting")),
                  position(path, study.methods, json.at("method")),
                  json.at("seed").get<int64_t>(),
                  json.at("run"),
                  json.at("score"),
                  json.at("seconds").get<double>(),
                  json.at("results"),
                  {}};
  for (const ordered_json& point : json.value("curve", ordered_json::array())) {
    cell.curve.emplace_back(point.at("epoch").get<int64_t>(), point.at("results"));
  }
  return cell;
}

}  // namespace

std::optional<double> column_value(const CellResult& cell, const StudyColumn& column) {
  if (column.figure == "minutes") return cell.seconds / 60;
  const ordered_json& value = column.figure == "id_accuracy" ? cell.results.at("id_accuracy")
                              : column.set.empty()           ? cell.results.at("mean").at(column.figure)
                                                   : cell.results.at("sets").at(column.set).at(column.figure);
  if (value.is_null()) return std::nullopt;
  return 100 * value.get<double>();
}

std::optional<double> paper_figure(const Study& study, size_t setting, size_t method,
                                   const StudyColumn& column) {
  const auto& paper = study.methods[method].paper;
  const auto figures = paper.find(study.settings[setting].name);
  if (figures == paper.end()) return std::nullopt;
  const auto figure = figures->second.find(column.key);
  return figure == figures->second.end() ? std::nullopt : std::optional<double>(figure->second);
}

Summary summarise(const std::vector<double>& values) {
  if (values.empty()) return {};
  const size_t count = values.size();
  const auto n = static_cast<double>(count);
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / n;
  for (const double value : values) squares += (value - mean) * (value - mean);
  if (count == 1) return {mean, std::nullopt, count};
  return {mean, std::sqrt(squares / (n - 1)), count};
}

Summary summarise(const std::vector<CellResult>& results, size_t setting, size_t method,
                  const StudyColumn& column) {
  std::vector<double> values;
  size_t seeds = 0;
  for (const CellResult& cell : results) {
    if (cell.setting != setting || cell.method != method) continue;
    ++seeds;
    if (const auto value = column_value(cell, column)) values.push_back(*value);
  }
  return values.size() == seeds ? summarise(values) : Summary{std::nullopt, std::nullopt, seeds};
}

std::string to_json_text(const Study& study, const StudyResults& results) {
  ordered_json json = {{"format", kFormat},
                       {"title", study.title},
                       {"seeds", study.seeds},
                       {"settings", names(study.settings)},
                       {"methods", names(study.methods)},
                       {"columns", ordered_json::array()},
                       {"cells", ordered_json::array()},
                       {"missing", ordered_json::array()}};
  for (const StudyColumn& column : study.columns) json["columns"].push_back(column.key);
  for (const CellResult& cell : results.cells) {
    ordered_json entry = cell_json(study, cell.setting, cell.method, cell.seed);
    entry.update({{"score", cell.score}, {"run", cell.run}, {"seconds", cell.seconds}});
    entry["results"] = cell.results;
    for (const auto& [epoch, figures] : cell.curve) {
      entry["curve"].push_back({{"epoch", epoch}, {"results", figures}});
    }
    json["cells"].push_back(std::move(entry));
  }
  for (const MissingCell& cell : results.missing) {
    ordered_json entry = cell_json(study, cell.setting, cell.method, cell.seed);
    entry["failure"] = cell.failure.empty() ? ordered_json(nullptr) : ordered_json(cell.failure);
    json["missing"].push_back(std::move(entry));
  }
  json["table"] = table_json(study, results.cells);
  return json_text(json, 2) + "\n";
}

StudyRecord read_study_results(const std::string& path) {
  const std::string text = read_file(path);
  try {
    const ordered_json json = ordered_json::parse(text);
    if (const auto format = json.value("format", ""); format != kFormat) {
      throw Error(path, fmt::format("is of format '{}'", format), fmt::format("this poem reads {}", kFormat));
    }
    StudyRecord record;
    record.study = study_of(path, json);
    for (const ordered_json& cell : json.at("cells"))
      record.results.cells.push_back(cell_of(path, record.study, cell));
    for (const ordered_json& cell : json.at("missing")) {
      const ordered_json& failure = cell.at("failure");
      record.results.missing.push_back({position(path, record.study.settings, cell.at("setting")),
                                        position(path, record.study.methods, cell.at("method")),
                                        cell.at("seed").get<int64_t>(),
                                        failure.is_null() ? "" : failure.get<std::string>()});
    }
    return record;
  } catch (const nlohmann::json::exception& e) {
    throw Error(path, fmt::format("is damaged: {}", e.what()),
                "run poem study again: it writes the file again");
  }
}

std::string to_csv(const Study& study, const std::vector<CellResult>& results) {
  std::string csv = fmt::format("setting,method,seed,{},seconds\n", kCsvFigures);
  for (const CellResult& cell : results) {
    csv += csv_lines(csv_start(study, cell), cell.results, fmt::format(",{:.3f}", cell.seconds));
  }
  return csv;
}

std::string curves_csv(const Study& study, const std::vector<CellResult>& results) {
  std::string csv = fmt::format("setting,method,seed,epoch,{}\n", kCsvFigures);
  for (const CellResult& cell : results) {
    for (const auto& [epoch, figures] : cell.curve) {
      csv += csv_lines(fmt::format("{},{}", csv_start(study, cell), epoch), figures, "");
    }
  }
  return csv;
}

}  // namespace poem
