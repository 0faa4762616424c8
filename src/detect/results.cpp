#include "detect/results.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text.h"
#include "core/text_table.h"

namespace poem {
namespace {

struct Figure {
  const char *key, *title;
  double OodMetrics::*value;
};

constexpr Figure kFigures[] = {{"fpr95", "FPR95", &OodMetrics::fpr95},
                               {"auroc", "AUROC", &OodMetrics::auroc},
                               {"aupr_in", "AUPR-in", &OodMetrics::aupr_in},
                               {"aupr_out", "AUPR-out", &OodMetrics::aupr_out},
                               {"detection_error", "DetErr", &OodMetrics::detection_error}};

nlohmann::ordered_json figures_json(const OodMetrics& metrics) {
  nlohmann::ordered_json json;
  for (const Figure& figure : kFigures) json[figure.key] = metrics.*figure.value;
  return json;
}

std::string json_text(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string csv_header() {
  std::string header = "set";
  for (const Figure& figure : kFigures) header += fmt::format(",{}", figure.key);
  return header + ",id_accuracy,id_count,ood_count\n";
}

std::string csv_lines(const std::string& prefix, const Results& results) {
  std::string csv;
  const auto add_line = [&](const std::string& name, const OodMetrics& metrics, const std::string& counts) {
    csv += prefix + csv_field(name);
    for (const Figure& figure : kFigures) csv += fmt::format(",{}", metrics.*figure.value);
    csv += (results.id_accuracy ? fmt::format(",{}", *results.id_accuracy) : ",") + counts + "\n";
  };
  for (const SetResult& set : results.sets) {
    add_line(set.name, set.metrics, fmt::format(",{},{}", set.metrics.id_count, set.metrics.ood_count));
  }
  add_line("mean", results.mean, ",,");
  return csv;
}

TextTable figures_table(std::initializer_list<std::string> more_columns) {
  TextTable table{{"%"}, 1, {}};
  for (const Figure& figure : kFigures) table.header.push_back(figure.title);
  table.header.insert(table.header.end(), more_columns);
  return table;
}

TextTable::Row figures_row(const std::string& name, const OodMetrics& metrics) {
  TextTable::Row row{{{name}}};
  for (const Figure& figure : kFigures) {
    row.entries.push_back({fmt::format("{:.2f}", 100 * (metrics.*figure.value))});
  }
  return row;
}

std::string accuracy_line(const Results& results) {
  return results.id_accuracy ? fmt::format("ID accuracy {:.2f}\n", 100 * *results.id_accuracy) : "";
}

}  // namespace

Results make_results(std::vector<SetResult> sets, std::optional<double> id_accuracy) {
  if (sets.empty()) throw Error("results", "there is no OOD set", "name at least one");
  OodMetrics mean;
  for (const Figure& figure : kFigures) {
    for (const SetResult& set : sets) mean.*figure.value += set.metrics.*figure.value;
    mean.*figure.value /= static_cast<double>(sets.size());
  }
  return {std::move(sets), mean, id_accuracy};
}

nlohmann::ordered_json to_json(const Results& results) {
  nlohmann::ordered_json json;
  for (const SetResult& set : results.sets) {
    auto& entry = json["sets"][set.name] = figures_json(set.metrics);
    entry["id_count"] = set.metrics.id_count;
    entry["ood_count"] = set.metrics.ood_count;
  }
  json["mean"] = figures_json(results.mean);
  json["id_accuracy"] = nullptr;
  if (results.id_accuracy) json["id_accuracy"] = *results.id_accuracy;
  return json;
}

std::string to_json_text(const Results& results) { return json_text(to_json(results)); }

std::string to_json_text(const ScoreResults& results) {
  nlohmann::ordered_json json;
  for (const auto& [score, figures] : results) json["scores"][score] = to_json(figures);
  return json_text(json);
}

std::string to_csv(const Results& results) { return csv_header() + csv_lines("", results); }

std::string to_csv(const ScoreResults& results) {
  std::string csv = "score," + csv_header();
  for (const auto& [score, figures] : results) csv += csv_lines(score + ",", figures);
  return csv;
}

std::string to_table(const Results& results, const Terminal& where) {
  TextTable table = figures_table({"ID", "OOD"});
  for (const SetResult& set : results.sets) {
    table.rows.push_back(figures_row(set.name, set.metrics));
    for (const int64_t count : {set.metrics.id_count, set.metrics.ood_count}) {
      table.rows.back().entries.push_back({fmt::to_string(count)});
    }
  }
  TextTable::Row mean = figures_row("mean", results.mean);
  mean.entries.resize(table.header.size());
  mean.first = true;
  table.rows.push_back(mean);
  return to_text(table, where) + accuracy_line(results);
}

std::string to_table(const ScoreResults& results, const Terminal& where) {
  TextTable table = figures_table({});
  for (const auto& [score, figures] : results) table.rows.push_back(figures_row(score, figures.mean));
  const Results& first = results.front().second;
  std::string note = "means over the OOD sets";
  int64_t told = -1;  // a balance may take other ID scores for every set
  for (const SetResult& set : first.sets) {
    note += told < 0 ? ";" : ",";
    if (set.metrics.id_count != told) note += fmt::format(" {} ID against", set.metrics.id_count);
    note += fmt::format(" {} {}", set.name, set.metrics.ood_count);
    told = set.metrics.id_count;
  }
  return to_text(table, where) + note + "\n" + accuracy_line(first);
}

}  // namespace poem
