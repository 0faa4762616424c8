#include "poem/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/json_text.h"
#include "core/text.h"
#include "core/text_table.h"
#include "detect/results_output.h"
#include "poem/error.h"
#include "poem/scores.h"

namespace poem {
namespace {

using nlohmann::ordered_json;

struct Figure {
  const char *key, *title;
  double OodMetrics::*value;
};

constexpr Figure kFigures[] = {{"fpr95", "FPR95", &OodMetrics::fpr95},
                               {"auroc", "AUROC", &OodMetrics::auroc},
                               {"aupr_in", "AUPR-in", &OodMetrics::aupr_in},
                               {"aupr_out", "AUPR-out", &OodMetrics::aupr_out},
                               {"detection_error", "DetErr", &OodMetrics::detection_error}};

ordered_json figures_json(const OodMetrics& metrics) {
  ordered_json json;
  for (const Figure& figure : kFigures) json[figure.key] = metrics.*figure.value;
  return json;
}

// A line for every member of an object and every entry of a list: a matrix stays legible.
std::string by_lines(const ordered_json& json, const std::string& indent = "") {
  if (!json.is_structured() || json.empty()) return json_text(json);
  std::string text;
  for (const auto& [key, member] : json.items()) {
    text += text.empty() ? "\n" : ",\n";
    text += indent + "  ";
    text += json.is_array() ? json_text(member)
                            : json_text(ordered_json(key)) + ": " + by_lines(member, indent + "  ");
  }
  return (json.is_array() ? "[" : "{") + text + "\n" + indent + (json.is_array() ? "]" : "}");
}

ordered_json threshold_json(const AtThreshold& at) {
  ordered_json json = {{"threshold", at.threshold}};
  if (at.unsure_threshold) json["unsure_threshold"] = *at.unsure_threshold;
  for (size_t i = 0; i < at.sets.size(); ++i) {
    ordered_json& entry = i == 0 ? json["id"] : json["sets"][at.sets[i].set];
    entry = {{"kept", at.sets[i].kept}, {"rejected", at.sets[i].rejected}};
    if (at.unsure_threshold) entry["unsure"] = at.sets[i].unsure;
  }
  return json;
}

void add_classes(const Results& results, ordered_json& json) {
  if (!results.confusion) return;
  const Confusion& confusion = *results.confusion;
  for (size_t i = 0; i < confusion.class_names.size(); ++i) {
    const auto accuracy = confusion.accuracy(i);
    json["classes"].push_back({{"name", confusion.class_names[i]},
                               {"images", confusion.count(i)},
                               {"accuracy", accuracy ? ordered_json(*accuracy) : ordered_json(nullptr)}});
  }
  json["confusion"] = confusion.images;
}

ordered_json with_threshold(const Results& results) {
  ordered_json json = to_json(results);
  if (results.at_threshold) json["at_threshold"] = threshold_json(*results.at_threshold);
  return json;
}

std::string figure_text(double value, const char* format) {
  return std::isnan(value) ? "NA" : fmt::format(fmt::runtime(format), value);
}

std::string csv_header() {
  std::string header = "set";
  for (const Figure& figure : kFigures) header += fmt::format(",{}", figure.key);
  return header + ",id_accuracy,id_count,ood_count,problem\n";
}

std::string csv_lines(const std::string& prefix, const Results& results) {
  std::string csv;
  const auto add_line = [&](const std::string& name, const OodMetrics& metrics, const std::string& counts) {
    csv += prefix + csv_field(name);
    for (const Figure& figure : kFigures) csv += "," + figure_text(metrics.*figure.value, "{}");
    csv += (results.id_accuracy ? fmt::format(",{}", *results.id_accuracy) : ",") + counts + "," +
           csv_field(results.problem) + "\n";
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
    row.entries.push_back({figure_text(100 * (metrics.*figure.value), "{:.2f}")});
  }
  return row;
}

std::string accuracy_line(const Results& results) {
  return results.id_accuracy ? fmt::format("ID accuracy {:.2f}\n", 100 * *results.id_accuracy) : "";
}

std::string classes_table(const Results& results, const Terminal& where) {
  constexpr size_t kMost = 5;  // a hundred would hide the rest
  if (!results.confusion) return "";
  const Confusion& confusion = *results.confusion;
  const std::vector<size_t> worst = confusion.worst_first();
  TextTable table{{worst.size() > kMost ? fmt::format("worst of {} classes", worst.size()) : "class",
                   "images", "accuracy", "most often mistaken for"},
                  1,
                  {}};
  for (size_t i = 0; i < std::min(worst.size(), kMost); ++i) {
    const size_t label = worst[i];
    const auto other = confusion.mistaken_for(label);
    table.rows.push_back(
        {{{confusion.class_names[label]},
          {fmt::to_string(confusion.count(label))},
          {fmt::format("{:.2f}", 100 * *confusion.accuracy(label))},
          {other ? fmt::format("{} ({})", confusion.class_names[*other], confusion.images[label][*other])
                 : "-"}}});
  }
  return to_text(table, where);
}

std::string threshold_table(const Results& results, const Terminal& where) {
  if (!results.at_threshold) return "";
  TextTable table{
      {fmt::format("at threshold {:.6g}", results.at_threshold->threshold), "kept", "rejected"}, 1, {}};
  const bool unsure = results.at_threshold->unsure_threshold.has_value();
  if (unsure) table.header.push_back("of these unsure");
  for (const AtThreshold::Count& count : results.at_threshold->sets) {
    TextTable::Row row{{{count.set}, {fmt::to_string(count.kept)}, {fmt::to_string(count.rejected)}}};
    const double share = static_cast<double>(count.unsure) / static_cast<double>(count.kept + count.rejected);
    if (unsure) row.entries.push_back({fmt::format("{} ({:.1f} % of all)", count.unsure, 100 * share)});
    table.rows.push_back(row);
  }
  return to_text(table, where);
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

namespace {

// Names the first score that is not finite; empty if all are.
std::string not_finite(const std::string& set, const std::vector<double>& scores) {
  const auto bad = std::find_if(scores.begin(), scores.end(), [](double x) { return !std::isfinite(x); });
  if (bad == scores.end()) return "";
  return fmt::format("the score at index {} of {} is {}", bad - scores.begin(), set, *bad);
}

bool all_equal(const std::vector<double>& id, const SetScores& ood) {
  const auto same = [&](const std::vector<double>& scores) {
    return std::all_of(scores.begin(), scores.end(), [&](double x) { return x == id[0]; });
  };
  return same(id) && std::all_of(ood.begin(), ood.end(), [&](const auto& set) { return same(set.second); });
}

Results no_results(const std::vector<double>& id, const SetScores& ood, const std::string& problem) {
  std::vector<SetResult> sets;
  for (const auto& [name, scores] : ood) {
    OodMetrics none;
    for (const Figure& figure : kFigures) none.*figure.value = std::nan("");
    none.id_count = static_cast<int64_t>(id.size());
    none.ood_count = static_cast<int64_t>(scores.size());
    sets.push_back({name, none});
  }
  Results results = make_results(std::move(sets));
  results.problem = problem;
  return results;
}

}  // namespace

Results results_of(const std::vector<double>& id, const SetScores& ood,
                   const std::optional<Balance>& balance) {
  std::vector<SetResult> sets;
  for (const auto& [name, scores] : ood) sets.push_back({name, ood_metrics(id, scores, balance)});
  Results results = make_results(std::move(sets));
  if (all_equal(id, ood))
    results.problem = fmt::format("all scores are {}: they cannot separate ID from OOD", id[0]);
  return results;
}

Results results_of(const Score& score, const std::vector<double>& id, const SetScores& ood,
                   const std::optional<Balance>& balance) {
  std::string problem = score.problem();
  if (problem.empty()) problem = not_finite("id", id);
  for (const auto& [name, scores] : ood) {
    if (problem.empty()) problem = not_finite(name, scores);
  }
  return problem.empty() ? results_of(id, ood, balance) : no_results(id, ood, problem);
}

void check_figures(const std::string& score, const Results& results) {
  if (!results.has_figures())
    throw Error("score '" + score + "'", results.problem,
                "check the input of the score, or use another score");
}

nlohmann::ordered_json to_json(const Results& results) {
  ordered_json json;
  for (const SetResult& set : results.sets) {
    auto& entry = json["sets"][set.name] = figures_json(set.metrics);
    entry["id_count"] = set.metrics.id_count;
    entry["ood_count"] = set.metrics.ood_count;
  }
  json["mean"] = figures_json(results.mean);
  json["id_accuracy"] = nullptr;
  if (results.id_accuracy) json["id_accuracy"] = *results.id_accuracy;
  if (!results.problem.empty()) json["problem"] = results.problem;
  return json;
}

ordered_json to_full_json(const Results& results) {
  ordered_json json = with_threshold(results);
  add_classes(results, json);
  return json;
}

std::string to_json_text(const Results& results) { return by_lines(to_full_json(results)) + "\n"; }

std::string to_json_text(const ScoreResults& results) {
  ordered_json json;
  for (const auto& [score, figures] : results) json["scores"][score] = with_threshold(figures);
  add_classes(results.front().second, json);
  return by_lines(json) + "\n";
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
  return to_text(table, where) + (results.problem.empty() ? "" : results.problem + "\n") +
         threshold_table(results, where) + accuracy_line(results) + classes_table(results, where);
}

std::string to_table(const Results& results) { return to_table(results, Terminal()); }

std::string to_table(const ScoreResults& results, const Terminal& where) {
  TextTable table = figures_table({});
  for (const auto& [score, figures] : results) table.rows.push_back(figures_row(score, figures.mean));
  const Results& first = results.front().second;
  std::string note = "means over the OOD sets";
  int64_t told = -1;  // with a balance, sets may use different numbers of ID scores
  for (const SetResult& set : first.sets) {
    note += told < 0 ? ";" : ",";
    if (set.metrics.id_count != told) note += fmt::format(" {} ID against", set.metrics.id_count);
    note += fmt::format(" {} {}", set.name, set.metrics.ood_count);
    told = set.metrics.id_count;
  }
  std::string text = to_text(table, where) + note + "\n";
  for (const auto& [score, figures] : results) {
    if (!figures.problem.empty()) text += fmt::format("{}: {}\n", score, figures.problem);
  }
  for (const auto& [score, figures] : results) text += threshold_table(figures, where);
  return text + accuracy_line(first) + classes_table(first, where);
}

std::string to_table(const ScoreResults& results) { return to_table(results, Terminal()); }

}  // namespace poem
