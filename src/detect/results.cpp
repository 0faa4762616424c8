#include "detect/results.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace poem {
namespace {

using nlohmann::json;

struct Column {
  const char* key;
  const char* title;
  double OodMetrics::*value;
};

constexpr Column kColumns[] = {{"fpr95", "FPR95", &OodMetrics::fpr95},
                               {"auroc", "AUROC", &OodMetrics::auroc},
                               {"aupr_in", "AUPR-in", &OodMetrics::aupr_in},
                               {"aupr_out", "AUPR-out", &OodMetrics::aupr_out},
                               {"detection_error", "error", &OodMetrics::detection_error}};

json to_json(const OodMetrics& metrics) {
  json j;
  for (const Column& column : kColumns) j[column.key] = metrics.*column.value;
  return j;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

Results make_results(std::vector<SetResult> sets, std::optional<double> id_accuracy) {
  Results results{std::move(sets), {}, id_accuracy};
  const auto n = static_cast<double>(results.sets.size());
  for (const auto& set : results.sets) {
    for (const Column& column : kColumns) results.mean.*column.value += set.metrics.*column.value / n;
    results.mean.id_count = set.metrics.id_count;
    results.mean.ood_count += set.metrics.ood_count;
  }
  return results;
}

json to_json(const Results& results) {
  json sets = json::object();
  for (const auto& set : results.sets) {
    json entry = to_json(set.metrics);
    entry["id_count"] = set.metrics.id_count;
    entry["ood_count"] = set.metrics.ood_count;
    sets[set.name] = entry;
  }
  json mean = to_json(results.mean);
  const json accuracy = results.id_accuracy ? json(*results.id_accuracy) : json(nullptr);
  mean["id_accuracy"] = accuracy;
  return {{"format", 1}, {"id_accuracy", accuracy}, {"mean", mean}, {"sets", sets}};
}

std::string to_csv(const Results& results) {
  std::string text = "set";
  for (const Column& column : kColumns) text += fmt::format(",{}", column.key);
  text += ",id_accuracy,id_count,ood_count\n";
  const auto row = [&](const std::string& name, const OodMetrics& m) {
    text += csv_field(name);
    for (const Column& column : kColumns) text += fmt::format(",{}", m.*column.value);
    text += fmt::format(",{},{},{}\n", results.id_accuracy ? fmt::format("{}", *results.id_accuracy) : "",
                        m.id_count, m.ood_count);
  };
  for (const auto& set : results.sets) row(set.name, set.metrics);
  row("mean", results.mean);
  return text;
}

std::string to_table(const Results& results) {
  size_t width = 8;
  for (const auto& set : results.sets) width = std::max(width, set.name.size());
  std::string text = fmt::format("{:<{}}", "OOD set", width);
  for (const Column& column : kColumns) text += fmt::format("  {:>8}", column.title);
  text += fmt::format("  {:>9}  {:>9}\n", "ID count", "OOD count");
  const auto row = [&](const std::string& name, const OodMetrics& m) {
    text += fmt::format("{:<{}}", name, width);
    for (const Column& column : kColumns) text += fmt::format("  {:>8.2f}", 100 * (m.*column.value));
    text += fmt::format("  {:>9}  {:>9}\n", m.id_count, m.ood_count);
  };
  for (const auto& set : results.sets) row(set.name, set.metrics);
  row("mean", results.mean);
  if (results.id_accuracy) text += fmt::format("ID accuracy {:.2f} %\n", 100 * *results.id_accuracy);
  return text;
}

std::vector<float> to_floats(const at::Tensor& scores) {
  const at::Tensor values = scores.to(at::kFloat).contiguous();
  return {values.data_ptr<float>(), values.data_ptr<float>() + values.numel()};
}

}  // namespace poem
