#include "report/comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "core/text.h"
#include "poem/config.h"
#include "poem/error.h"
#include "report/epoch_plot.h"
#include "report/html.h"
#include "report/page.h"
#include "report/words.h"

namespace poem {
namespace {

using nlohmann::json;

bool are_distinct(const std::vector<std::string>& names) {
  return std::set<std::string>(names.begin(), names.end()).size() == names.size();
}

// A run compared with itself would look like two runs that agree.
void check_no_run_twice(const std::vector<RunData>& runs) {
  for (size_t i = 0; i < runs.size(); ++i) {
    for (size_t other = 0; other < i; ++other) {
      std::error_code ignored;  // both exist: they were read
      if (std::filesystem::equivalent(runs[i].folder, runs[other].folder, ignored))
        throw Error(runs[i].folder, "is named twice", "name each run once");
    }
  }
}

// The last components of the folders if they differ, otherwise the folders as they were given.
std::vector<std::string> names_of(const std::vector<RunData>& runs) {
  std::vector<std::string> names;
  for (const RunData& run : runs) names.push_back(run.name());
  if (are_distinct(names)) return names;
  for (size_t i = 0; i < runs.size(); ++i) names[i] = runs[i].folder;
  return names;
}

constexpr const char* kNotRecorded = "not recorded";

using Entries = std::map<std::string, std::string>;

class Comparison {
 public:
  explicit Comparison(const std::vector<RunData>& runs)
      : runs_(runs),
        names_(names_of(runs)),
        page_(fmt::format("{} runs compared", runs.size()), fmt::format("{}", fmt::join(names_, " · ")),
              {"run.js"}) {}

  std::string operator()() {
    page_.section("Verdict");
    page_.add(html_paragraph(verdict(), "verdict"));
    page_.add(
        html_paragraph("These are single runs: small differences between them may be chance.", "quiet"));
    page_.add(html_notes(notes()));
    page_.add(html_table(means()));
    if (const Table table = by_set(); !table.rows.empty()) page_.add(html_table(table));
    add_curves();
    add_rocs();
    add_setup();
    return page_.html();
  }

 private:
  std::string verdict() const {
    const auto rank = [&](size_t i) { return runs_[i].results ? runs_[i].results->mean.fpr95 : NAN; };
    std::vector<size_t> order;
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (std::isfinite(rank(i))) order.push_back(i);
    }
    if (order.size() < 2)
      return "Fewer than two of the runs have figures on test sets, so there is nothing to rank.";
    if (!same_sets()) return "The runs were tested on different sets, so their means cannot be compared.";
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rank(a) < rank(b); });
    std::vector<std::string> places;
    for (size_t i = 0, end; i < order.size(); i = end) {  // runs whose figures look the same share a rank
      const std::string figure = percent_text(rank(order[i]), 2);
      std::vector<std::string> level;
      for (end = i; end < order.size() && percent_text(rank(order[end]), 2) == figure; ++end)
        level.push_back(names_[order[end]]);
      places.push_back(
          fmt::format("{}{} {}", listed(level), level.size() > 1 ? " each with" : " with", figure));
    }
    return fmt::format(
        "{}{}.", places.size() > 1 ? "Lowest mean FPR95: " : "Mean FPR95: ", fmt::join(places, "; then "));
  }

  // Of the runs that have figures.
  bool same_sets() const {
    std::set<std::set<std::string>> lists;
    for (const RunData& run : runs_) {
      if (!run.results) continue;
      std::set<std::string> names;
      for (const SetResult& set : run.results->sets) names.insert(set.name);
      lists.insert(names);
    }
    return lists.size() <= 1;
  }

  std::vector<std::string> notes() const {
    std::vector<std::string> all;
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (!runs_[i].finished())
        all.push_back(fmt::format("{}: not finished, {}.", names_[i], runs_[i].progress()));
      if (runs_[i].results_epoch > 0)
        all.push_back(fmt::format("{}: figures after epoch {}.", names_[i], runs_[i].results_epoch));
      for (const std::string& note : runs_[i].notes) all.push_back(names_[i] + ": " + note);
    }
    return all;
  }

  Table means() const {
    Table table{"Means over the test sets, in percent",
                {{"run", true},
                 {"FPR95"},
                 {"AUROC"},
                 {"AUPR-in"},
                 {"AUPR-out"},
                 {"ID accuracy"},
                 {"epochs"},
                 {"seed"}},
                {}};
    for (size_t i = 0; i < runs_.size(); ++i) {
      OodMetrics m;
      m.fpr95 = m.auroc = m.aupr_in = m.aupr_out = NAN;
      if (runs_[i].results) m = runs_[i].results->mean;
      table.rows.push_back({names_[i], in_percent(m.fpr95), in_percent(m.auroc), in_percent(m.aupr_in),
                            in_percent(m.aupr_out),
                            in_percent(runs_[i].results ? runs_[i].results->id_accuracy.value_or(NAN) : NAN),
                            std::to_string(runs_[i].epochs.size()), runs_[i].setting("seed")});
    }
    return table;
  }

  // In the order in which they first occur.
  std::vector<std::string> set_names() const {
    std::vector<std::string> sets;
    for (const RunData& run : runs_) {
      if (!run.results) continue;
      for (const SetResult& set : run.results->sets) {
        if (std::find(sets.begin(), sets.end(), set.name) == sets.end()) sets.push_back(set.name);
      }
    }
    return sets;
  }

  Table by_set() const {
    Table table{"FPR95 by test set, in percent", {{"set", true}}, {}};
    for (const std::string& name : names_) table.columns.push_back({name});
    for (const std::string& set : set_names()) {
      std::vector<std::string> row = {set};
      for (const RunData& run : runs_) {
        double fpr95 = NAN;
        if (run.results) {
          for (const auto& [name, metrics] : run.results->sets) fpr95 = name == set ? metrics.fpr95 : fpr95;
        }
        row.push_back(in_percent(fpr95));
      }
      table.rows.push_back(row);
    }
    return table;
  }

  void add_curve(json& pieces, const char* title, const json& y_axis, const char* pointer,
                 double factor = 1) const {
    std::vector<EpochSeries> series;
    for (size_t i = 0; i < runs_.size(); ++i)
      series.push_back({names_[i], runs_[i].epoch_numbers(), runs_[i].by_epoch(pointer, factor)});
    add_epoch_plot(pieces, title, y_axis, series);
  }

  void add_curves() {
    json pieces = json::array();
    add_curve(pieces, "Mean FPR95 of the test sets", share_axis("FPR95"), "/results/mean/fpr95");
    add_curve(pieces, "Loss", {{"label", "loss"}}, "/loss");
    add_curve(pieces, "Accuracy in training", share_axis("accuracy"), "/train_accuracy");
    add_curve(pieces, "Accuracy on held-out ID images", share_axis("accuracy"), "/validation_accuracy");
    add_curve(pieces, "Boundary score of the mined set", boundary_axis(), "/mining/mined_abs_logit", -1);
    if (pieces.empty()) return;
    page_.section("Training");
    page_.draw({{"kind", "grid"}, {"pieces", pieces}});
  }

  // The page contains a run's ID scores once, however many test sets there are.
  void add_rocs() {
    const std::vector<std::string> sets = set_names();
    json runs = json::array();
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i].scores.empty()) continue;
      json ood = json::array();
      for (const std::string& set : sets) {
        const auto& scores = runs_[i].scores;
        const auto found = std::find_if(scores.begin() + 1, scores.end(),
                                        [&](const NamedScores& one) { return one.name == set; });
        ood.push_back(found == scores.end() ? json(nullptr) : packed(found->scores));
      }
      runs.push_back({{"label", names_[i]}, {"id", packed(runs_[i].scores[0].scores)}, {"ood", ood}});
    }
    if (runs.empty()) return;
    page_.section("ROC");
    page_.draw({{"kind", "rocs"}, {"sets", sets}, {"runs", runs}});
  }

  void add_setup() {
    page_.section("Setup");
    const Table differences = config_differences();
    if (differences.rows.empty()) return page_.add(html_paragraph("The configs do not differ."));
    page_.add(html_table(differences));
    for (const auto& row : differences.rows) {
      if (std::count(row.begin(), row.end(), kNotRecorded) == 0) continue;
      return page_.add(html_paragraph(
          "\"Not recorded\" means that the run's config lacks the key, perhaps because poem was older.",
          "quiet"));
    }
  }

  // If a run's config lacks a key, the run is assumed to have used the present default.
  Table config_differences() const {
    Table table{"Keys of the configs that differ", {{"key", true}}, {}};
    for (const std::string& name : names_) table.columns.push_back({name, true});
    std::vector<Entries> configs;
    std::set<std::string> keys;
    for (const RunData& run : runs_) {
      configs.emplace_back(run.config.begin(), run.config.end());
      for (const auto& entry : run.config) keys.insert(entry.first);
    }
    const auto defaults = config_entries(to_yaml(Config()));
    const Entries usual(defaults.begin(), defaults.end());
    for (const std::string& key : keys) {
      std::vector<std::string> row = {key};
      std::set<std::string> values;
      for (const Entries& config : configs) {
        const auto found = config.find(key);
        row.push_back(found == config.end() ? kNotRecorded : found->second);
        const Entries& from = found == config.end() ? usual : config;
        if (from.count(key) > 0) values.insert(from.at(key));
      }
      if (values.size() > 1) table.rows.push_back(row);
    }
    return table;
  }

  const std::vector<RunData>& runs_;
  const std::vector<std::string> names_;
  Page page_;
};

}  // namespace

std::string comparison(const std::vector<RunData>& runs) {
  check_no_run_twice(runs);
  return Comparison(runs)();
}

}  // namespace poem
