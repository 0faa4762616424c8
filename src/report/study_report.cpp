#include "report/study_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "core/file.h"
#include "core/text.h"
#include "poem/error.h"
#include "report/html.h"
#include "report/page.h"
#include "report/run_report.h"
#include "report/words.h"
#include "study/differences.h"
#include "study/study_table.h"

namespace poem {
namespace {

using nlohmann::json;

const StudyColumn& fpr95() {
  static const StudyColumn column = study_column("fpr95");
  return column;
}

std::string mean_digits(const Summary& summary) {
  return summary.mean ? fmt::format("{:.2f}", *summary.mean) : "–";
}

std::string mean_text(const Summary& summary) {
  return mean_digits(summary) + (summary.deviation ? fmt::format(" ± {:.2f}", *summary.deviation) : "");
}

// "CIFAR-10: " if the study has settings.
std::string setting_prefix(const Study& study, size_t setting) {
  const std::string& name = study.settings[setting].name;
  return name.empty() ? "" : name + ": ";
}

std::string titled(const std::string& title, const Study& study, size_t setting) {
  const std::string& name = study.settings[setting].name;
  return name.empty() ? title : fmt::format("{}, {}", title, name);
}

std::vector<std::string> names_of(const Study& study, const std::vector<size_t>& methods) {
  std::vector<std::string> names;
  for (const size_t method : methods) names.push_back(study.methods[method].name);
  return names;
}

Summary summary_of(const StudyRecord& record, size_t setting, size_t method) {
  return summarise(record.results.cells, setting, method, fpr95());
}

// A point of a line with its band.
void add_point(json& series, double x, const Summary& summary) {
  const auto edge = [&](double side) {
    return summary.deviation ? json(std::clamp(*summary.mean + side * *summary.deviation, 0.0, 100.0))
                             : json(nullptr);
  };
  series["x"].push_back(x);
  series["y"].push_back(*summary.mean);
  series["low"].push_back(edge(-1));
  series["high"].push_back(edge(1));
}

// How the best method compares with every other, over the seeds that both have.
struct Outcome {
  std::vector<size_t> level;  // the best, and those with as many seeds whose mean looks the same
  std::vector<size_t> better, worse, close, open;  // distinguished; not distinguished; by too few seeds
  std::vector<size_t> without;                     // no seed in common with the best
  size_t seeds = 0;                                // of the best
  bool others_have_fewer = false;
};

Outcome outcome_of(const StudyRecord& record, size_t setting, const Differences& differences) {
  const Summary best = summary_of(record, setting, differences.best);
  Outcome outcome;
  outcome.seeds = best.seeds;
  for (size_t method = 0; method < record.study.methods.size(); ++method) {
    const Summary summary = summary_of(record, setting, method);
    const auto other = std::find_if(differences.others.begin(), differences.others.end(),
                                    [&](const Difference& d) { return d.method == method; });
    outcome.others_have_fewer = outcome.others_have_fewer || (summary.mean && summary.seeds < best.seeds);
    if (mean_digits(summary) == mean_digits(best) && summary.seeds == best.seeds) {
      outcome.level.push_back(method);
    } else if (other == differences.others.end()) {
      outcome.without.push_back(method);
    } else if (other->told_apart()) {
      (other->mean > 0 ? outcome.worse : outcome.better).push_back(method);
    } else {
      (other->seeds > 2 ? outcome.close : outcome.open).push_back(method);
    }
  }
  return outcome;
}

// "; the seeds do not distinguish it from random"
std::string words_on_chance(const Study& study, const Outcome& outcome) {
  const char* it = outcome.level.size() > 1 ? "them" : "it";
  std::string text;
  const auto add = [&](const std::vector<size_t>& methods, const std::string& words) {
    if (!methods.empty()) text += fmt::format("; {} {}", words, listed(names_of(study, methods)));
  };
  add(outcome.better, "over the seeds in common these are lower, by more than the seeds explain:");
  add(outcome.close, fmt::format("the seeds do not distinguish {} from", it));
  add(outcome.open, fmt::format("there are too few seeds to distinguish {} from", it));
  if (text.empty() && !outcome.worse.empty())
    text = "; every other method compared is worse by more than the seeds explain";
  add(outcome.without, "not compared, because no seed is in common:");
  return text;
}

// "POEM has the lowest mean FPR95, 2.54 ± 0.56 %; …"
std::string verdict_of(const StudyRecord& record, size_t setting) {
  const Study& study = record.study;
  const auto differences = differences_from_best(study, record.results.cells, setting, fpr95());
  if (!differences) return "";
  const Outcome outcome = outcome_of(record, setting, *differences);
  Summary best = summary_of(record, setting, differences->best);
  if (outcome.level.size() > 1) best.deviation.reset();  // the methods have different ones
  const std::string seeds = outcome.seeds < study.seeds.size()
                                ? fmt::format("{} of {}", outcome.seeds, counted(study.seeds.size(), "seed"))
                                : fmt::format("all {} seeds", outcome.seeds);
  return fmt::format(
      "{}{} {} the lowest mean FPR95{}, {}{}{}.", setting_prefix(study, setting),
      listed(names_of(study, outcome.level)), outcome.level.size() > 1 ? "share" : "has",
      outcome.others_have_fewer ? " of the methods with " + seeds : "", with_percent_sign(mean_text(best)),
      !outcome.others_have_fewer && outcome.seeds < study.seeds.size() ? ", over " + seeds : "",
      words_on_chance(study, outcome));
}

void add_verdict(Page& page, const StudyRecord& record) {
  page.section("Outcome");
  std::string all;
  for (size_t setting = 0; setting < record.study.settings.size(); ++setting) {
    const std::string text = verdict_of(record, setting);
    if (!text.empty()) all += html_paragraph(text, "verdict");
  }
  page.add(all.empty() ? html_paragraph("There is nothing to compare yet.") : all);
}

void add_missing(Page& page, const StudyRecord& record) {
  const auto& missing = record.results.missing;
  if (missing.empty()) return;
  std::vector<std::string> notes = {fmt::format(
      "This study is not complete: {} of {} {} missing. The command that started it continues from here.",
      missing.size(), counted(missing.size() + record.results.cells.size(), "cell"),
      missing.size() == 1 ? "is" : "are")};
  size_t open = 0;
  for (const MissingCell& cell : missing) {
    if (cell.failure.empty()) {
      ++open;
      continue;
    }
    notes.push_back(cell_name(record.study, cell.setting, cell.method, cell.seed) + ": " + cell.failure);
  }
  if (open > 0) notes.push_back(fmt::format("{} not finished", open));
  page.add(html_notes(notes));
}

// The table of one setting; `table` contains those of all settings, one after the other.
Table table_of(const StudyRecord& record, const StudyTable& table, size_t setting) {
  const size_t methods = record.study.methods.size(), skip = table.names - 1;
  Table html{
      titled(record.study.seeds.size() > 1 ? "Mean ± standard deviation over seeds" : "Figures of one seed",
             record.study, setting),
      {},
      {},
      {}};
  for (size_t i = skip; i < table.header.size(); ++i)
    html.columns.push_back({table.header[i], i < table.names});
  for (size_t row = 0; row < methods; ++row) {
    const auto& entries = table.rows[setting * methods + row].entries;
    html.rows.emplace_back();
    for (size_t i = skip; i < entries.size(); ++i) {
      if (entries[i].best) html.strong.emplace_back(row, i - skip);
      html.rows.back().push_back(entries[i].text);
    }
  }
  return html;
}

// FPR95 of every OOD set.
Table sets_of(const StudyRecord& record, size_t setting) {
  const Study& study = record.study;
  Table table{titled("FPR95 of every OOD set", study, setting), {{"method", true}}, {}, {}};
  std::vector<std::string> sets;
  for (const CellResult& cell : record.results.cells) {
    if (cell.setting != setting || !sets.empty()) continue;
    for (const auto& set : cell.results.at("sets").items()) sets.push_back(set.key());
  }
  for (const std::string& set : sets) table.columns.push_back({set});
  for (size_t method = 0; method < study.methods.size(); ++method) {
    table.rows.push_back({study.methods[method].name});
    for (const std::string& set : sets) {
      const StudyColumn column{"", set, "fpr95", "", true};
      const Summary summary = summarise(record.results.cells, setting, method, column);
      table.rows.back().push_back(mean_text(summary));
    }
  }
  return table;
}

void add_table(Page& page, const StudyRecord& record) {
  page.section("Table");
  const StudyTable table = make_table(record.study, record.results);
  for (size_t setting = 0; setting < record.study.settings.size(); ++setting) {
    page.add(html_table(table_of(record, table, setting)));
  }
  page.add(
      html_paragraph(table.note + " Bold marks the best of a column among rows with all seeds.", "quiet"));
  for (size_t setting = 0; setting < record.study.settings.size(); ++setting) {
    const Table sets = sets_of(record, setting);
    if (sets.columns.size() > 1) page.details(sets.caption, html_table(sets));
  }
}

// The number that a setting's name begins with, "8 % photos".
std::optional<double> leading_number(const std::string& name) {
  const size_t end = std::min(name.find_first_not_of("0123456789."), name.size());
  return parse_number<double>(name.substr(0, end));
}

// FPR95 against the settings, for studies whose settings are amounts of one thing: "4 % photos", "8 %
// photos", … Empty for all others.
json settings_piece(const StudyRecord& record) {
  const Study& study = record.study;
  std::map<double, size_t> settings;
  for (size_t i = 0; i < study.settings.size(); ++i) {
    const auto amount = leading_number(study.settings[i].name);
    if (!amount || !settings.emplace(*amount, i).second) return {};
  }
  if (settings.size() < 3) return {};
  json series = json::array();
  for (size_t method = 0; method < study.methods.size(); ++method) {
    json one = {{"label", study.methods[method].name}};
    for (const auto& [amount, setting] : settings) {
      const Summary summary = summary_of(record, setting, method);
      if (summary.mean) add_point(one, amount, summary);
    }
    if (one.contains("x")) series.push_back(std::move(one));
  }
  if (series.empty()) return {};
  const std::string& name = study.settings[settings.begin()->second].name;
  const size_t words = std::min(name.find_first_not_of("0123456789. "), name.size());
  return {{"kind", "lines"},
          {"title", "FPR95 by setting"},
          {"x", {{"label", name.substr(words)}, {"log", settings.begin()->first > 0}}},
          {"y", {{"label", "FPR95 (%)"}}},
          {"series", series}};
}

void add_settings(Page& page, const StudyRecord& record) {
  const json piece = settings_piece(record);
  if (piece.is_null()) return;
  page.section("By setting");
  page.draw({{"kind", "grid"}, {"pieces", {piece}}});
  page.add(html_paragraph("Means over seeds, with bands of one standard deviation to each side.", "quiet"));
}

void add_curves(Page& page, const StudyRecord& record) {
  page.section("Over epochs");
  json plots = json::array();
  for (size_t setting = 0; setting < record.study.settings.size(); ++setting) {
    const json series = curve_series(record, setting);
    if (series.empty()) continue;
    plots.push_back({{"kind", "lines"},
                     {"title", titled("FPR95 over epochs", record.study, setting)},
                     {"x", {{"label", "epoch"}, {"whole", true}}},
                     {"y", {{"label", "FPR95 (%)"}}},
                     {"series", series}});
  }
  if (plots.empty()) {
    page.add(html_paragraph(
        "Only the last epoch was evaluated. With \"curves: 5\" in the study's file, every fifth epoch is."));
    return;
  }
  page.draw({{"kind", "grid"}, {"pieces", plots}});
  page.add(html_paragraph(
      "Lines show the mean over the OOD sets, averaged over seeds. Bands extend one standard deviation to "
      "each side. The table shows the last epoch.",
      "quiet"));
}

constexpr double kMostPoints = 100;  // the largest possible difference of two FPR95; intervals end there

json interval_piece(const StudyRecord& record, size_t setting, const Differences& differences) {
  const std::string& best = record.study.methods[differences.best].name;
  const size_t seeds = summary_of(record, setting, differences.best).seeds;
  std::vector<std::string> names;
  json middle = json::array(), low = json::array(), high = json::array();
  for (const Difference& other : differences.others) {
    const bool fewer = other.seeds < seeds;
    names.push_back(record.study.methods[other.method].name +
                    (fewer ? fmt::format(" ({})", counted(other.seeds, "seed")) : ""));
    middle.push_back(other.mean);
    low.push_back(other.half ? json(std::max(other.mean - *other.half, -kMostPoints)) : json(nullptr));
    high.push_back(other.half ? json(std::min(other.mean + *other.half, kMostPoints)) : json(nullptr));
  }
  return {{"kind", "intervals"},
          {"title", titled("FPR95 compared with " + best, record.study, setting)},
          {"x", {{"label", fmt::format("points above {}", best)}}},
          {"names", names},
          {"middle", middle},
          {"low", low},
          {"high", high}};
}

std::string words_on_seeds(size_t seeds) {
  if (seeds == 1) return " One seed allows no interval.";
  if (seeds == 2) return " Two seeds are too few: the intervals are wide and say little.";
  return seeds < 5 ? fmt::format(" With {} seeds the intervals are wide and rough.", seeds) : "";
}

void add_differences(Page& page, const StudyRecord& record) {
  page.section("Differences over seeds");
  json plots = json::array();
  for (size_t setting = 0; setting < record.study.settings.size(); ++setting) {
    const auto found = differences_from_best(record.study, record.results.cells, setting, fpr95());
    if (found && !found->others.empty()) plots.push_back(interval_piece(record, setting, *found));
  }
  if (plots.empty()) return page.add(html_paragraph("A comparison needs two methods with a seed in common."));
  page.draw({{"kind", "grid"}, {"pieces", plots}});
  page.add(html_paragraph(
      "If an interval is wholly above 0, the method is worse than the best by more than the seeds explain. "
      "If "
      "it is wholly below 0, the method is better over the seeds in common. If it contains 0, the method may "
      "be as good."));
  page.add(html_paragraph(
      fmt::format(
          "Paired t-intervals of the differences over the seeds that both methods have, at {} for all "
          "intervals of a plot together (Bonferroni). An arrow means that an interval continues beyond the "
          "plot. The intervals assume normal differences. They account for the seeds of training, not for "
          "the "
          "choice of test images.{}",
          percent_text(0.95, 0), words_on_seeds(record.study.seeds.size())),
      "quiet"));
}

// Training time against FPR95; empty without figures. In seconds if no method takes two minutes.
json time_piece(const StudyRecord& record, size_t setting) {
  std::vector<double> times, figures;
  std::vector<std::string> names;
  for (size_t method = 0; method < record.study.methods.size(); ++method) {
    const Summary time = summarise(record.results.cells, setting, method, study_column("minutes"));
    const Summary figure = summarise(record.results.cells, setting, method, fpr95());
    if (!time.mean || !figure.mean) continue;
    times.push_back(*time.mean);
    figures.push_back(*figure.mean);
    names.push_back(record.study.methods[method].name);
  }
  if (names.empty()) return {};
  const bool in_seconds = *std::max_element(times.begin(), times.end()) < 2;
  for (double& time : times) time *= in_seconds ? 60 : 1;
  return {{"kind", "scatter"},
          {"title", titled("Training time and FPR95", record.study, setting)},
          {"x", {{"label", in_seconds ? "seconds of training" : "minutes of training"}, {"low", 0}}},
          {"y", {{"label", "FPR95 (%)"}}},
          {"series", {{{"label", "methods"}, {"x", times}, {"y", figures}, {"names", names}}}}};
}

void add_times(Page& page, const StudyRecord& record) {
  page.section("Training time");
  json plots = json::array();
  for (size_t setting = 0; setting < record.study.settings.size(); ++setting) {
    if (const json piece = time_piece(record, setting); !piece.is_null()) plots.push_back(piece);
  }
  if (plots.empty()) return page.add(html_paragraph("No method is finished."));
  page.draw({{"kind", "grid"}, {"pieces", plots}});
  page.add(html_paragraph(
      "Means over seeds. The time is that of training alone, on the machine that trained. Rows that share a "
      "network have the same time. Lower left is better.",
      "quiet"));
}

Table cells_of(const StudyRecord& record) {
  const Study& study = record.study;
  Table table{"Every cell, in percent or minutes", {{"method", true}}, {}, {}};
  if (!study.settings.front().name.empty()) table.columns.push_back({"setting", true});
  table.columns.push_back({"seed"});
  std::vector<StudyColumn> columns;
  for (const char* key : {"fpr95", "auroc", "aupr_in", "aupr_out", "id_accuracy", "minutes"}) {
    columns.push_back(study_column(key));
    table.columns.push_back({columns.back().title});
  }
  table.columns.push_back({"run", true});
  for (const CellResult& cell : record.results.cells) {
    std::vector<std::string> row = {study.methods[cell.method].name};
    if (!study.settings.front().name.empty()) row.push_back(study.settings[cell.setting].name);
    row.push_back(std::to_string(cell.seed));
    for (const StudyColumn& column : columns) {
      const auto value = column_value(cell, column);
      row.push_back(value ? fmt::format("{:.2f}", *value) : "NA");
    }
    row.push_back(cell.run);
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

json curve_series(const StudyRecord& record, size_t setting) {
  json series = json::array();
  for (size_t method = 0; method < record.study.methods.size(); ++method) {
    std::map<int64_t, std::vector<double>> by_epoch;
    for (const CellResult& cell : record.results.cells) {
      if (cell.setting != setting || cell.method != method) continue;
      for (const auto& [epoch, figures] : cell.curve)
        by_epoch[epoch].push_back(100 * figures.at("mean").at("fpr95").get<double>());
    }
    if (by_epoch.empty()) continue;
    json one = {{"label", record.study.methods[method].name}};
    for (const auto& [epoch, values] : by_epoch)
      add_point(one, static_cast<double>(epoch), summarise(values));
    series.push_back(std::move(one));
  }
  return series;
}

std::string study_report(const StudyRecord& record, const std::string& file) {
  const Study& study = record.study;
  Page page(study.title,
            fmt::format("A study of {}, {}{}", counted(study.methods.size(), "method"),
                        counted(study.seeds.size(), "seed"),
                        study.settings.size() > 1 ? fmt::format(", {} settings", study.settings.size()) : ""),
            {"study.js"});
  add_verdict(page, record);
  add_missing(page, record);
  add_table(page, record);
  add_settings(page, record);
  add_curves(page, record);
  add_differences(page, record);
  add_times(page, record);
  page.section("Cells");
  page.details("Figures of every cell", html_table(cells_of(record)));
  if (!file.empty()) page.details("The study's file", fmt::format("<pre>{}</pre>\n", escape_html(file)));
  return page.html();
}

bool is_study(const std::string& folder) { return std::filesystem::exists(folder + "/study.yaml"); }

std::string study_report_of(const std::string& folder) {
  const std::string results = folder + "/results.json";
  if (!std::filesystem::exists(results)) {
    throw Error(folder, "is a study without results", "wait until its first network is trained");
  }
  try {
    return study_report(read_study_results(results), read_file(folder + "/study.yaml"));
  } catch (const json::exception& e) {  // the figures of the cells are first used here
    throw Error(results, fmt::format("is damaged: {}", e.what()),
                "run poem study again: it writes the file again");
  }
}

void write_study_report(const std::string& folder) {
  write_report(report_path(folder), study_report_of(folder), /*force=*/true);
}

}  // namespace poem
