#include "study/study_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/text.h"

namespace poem {
namespace {

using Row = TextTable::Row;
using Entry = TextTable::Entry;

bool in_paper(const Study& study, const StudyColumn& column) {
  for (size_t setting = 0; setting < study.settings.size(); ++setting) {
    for (size_t method = 0; method < study.methods.size(); ++method) {
      if (paper_figure(study, setting, method, column)) return true;
    }
  }
  return false;
}

std::string number_text(const std::optional<double>& value, const char* missing) {
  return value ? fmt::format("{:.2f}", *value) : missing;
}

// The best mean as it is printed, so that two figures that look the same are both marked.
std::string best_mean(const std::vector<Summary>& column, size_t seeds, bool lower_is_better) {
  std::optional<double> best;
  for (const Summary& summary : column) {
    if (!summary.mean || summary.seeds < seeds) continue;
    if (!best || (lower_is_better ? *summary.mean < *best : *summary.mean > *best)) best = summary.mean;
  }
  return number_text(best, "");
}

std::string absence_text(const std::vector<MissingCell>& missing, size_t setting, size_t method) {
  const bool failed = std::any_of(missing.begin(), missing.end(), [&](const MissingCell& cell) {
    return cell.setting == setting && cell.method == method && !cell.failure.empty();
  });
  return failed ? "failed" : "missing";
}

std::string summary_text(const Summary& summary, size_t seeds) {
  if (!summary.mean) return "NA";
  return number_text(summary.mean, "") +
         (summary.deviation ? fmt::format(" ± {:.2f}", *summary.deviation) : "") +
         (summary.seeds < seeds ? fmt::format(" ({}/{})", summary.seeds, seeds) : "");
}

void add_column(const Study& study, const StudyResults& results, size_t setting, const StudyColumn& column,
                std::vector<Row>& rows) {
  std::vector<Summary> summaries;
  for (size_t method = 0; method < rows.size(); ++method) {
    summaries.push_back(summarise(results.cells, setting, method, column));
  }
  const size_t seeds = study.seeds.size();
  const std::string best = best_mean(summaries, seeds, column.lower_is_better);
  for (size_t method = 0; method < rows.size(); ++method) {
    const Summary& summary = summaries[method];
    const bool is_best = summary.mean && summary.seeds == seeds && number_text(summary.mean, "") == best;
    rows[method].entries.push_back(
        {summary.seeds == 0 ? absence_text(results.missing, setting, method) : summary_text(summary, seeds),
         is_best});
    if (in_paper(study, column)) {
      rows[method].entries.push_back({number_text(paper_figure(study, setting, method, column), "")});
    }
  }
}

std::string counts_text(const CellResult& cell) {
  std::vector<std::string> parts;
  int64_t id = 0;
  for (const auto& [name, figures] : cell.results.at("sets").items()) {
    id = figures.at("id_count").get<int64_t>();
    parts.push_back(fmt::format("{} {}", name, figures.at("ood_count").get<int64_t>()));
  }
  return fmt::format("{} ID images against {}", id, fmt::join(parts, ", "));
}

std::string missing_text(const Study& study, const std::vector<MissingCell>& missing) {
  std::vector<std::string> failed;
  for (const MissingCell& cell : missing) {
    if (!cell.failure.empty()) failed.push_back(cell_name(study, cell.setting, cell.method, cell.seed));
  }
  std::string text;
  if (!failed.empty()) text += fmt::format(" Failed: {}.", fmt::join(failed, "; "));
  if (const size_t open = missing.size() - failed.size(); open > 0) {
    text += fmt::format(" Not finished: {} of {} cells.", open,
                        study.seeds.size() * study.settings.size() * study.methods.size());
  }
  return text;
}

std::string note_text(const Study& study, const StudyResults& results) {
  const bool minutes = std::any_of(study.columns.begin(), study.columns.end(),
                                   [](const StudyColumn& column) { return column.figure == "minutes"; });
  const std::string seeds = study.seeds.size() == 1
                                ? fmt::format("one seed ({})", study.seeds.front())
                                : fmt::format("mean ± standard deviation over {} seeds ({})",
                                              study.seeds.size(), fmt::join(study.seeds, ", "));
  std::string note = fmt::format("Percent{}; last epoch; mean over the OOD sets unless one is named; {}.",
                                 minutes ? " or minutes" : "", seeds);
  for (size_t setting = 0; setting < study.settings.size(); ++setting) {
    const auto cell = std::find_if(results.cells.begin(), results.cells.end(),
                                   [&](const CellResult& c) { return c.setting == setting; });
    if (cell == results.cells.end()) continue;
    const std::string& name = study.settings[setting].name;
    note += fmt::format(" {}{}.", name.empty() ? "" : name + ": ", counts_text(*cell));
  }
  return note + missing_text(study, results.missing);
}

std::string escaped(const std::string& text, const std::string& special) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string latex(const std::string& text) {
  // A backslash first becomes a byte that occurs in no text: \textbackslash{} has braces, which would
  // otherwise be escaped.
  std::string out = escaped(replaced(text, "\\", "\x01"), "&%$#_{}");
  for (const auto& [from, to] : {std::pair{"\x01", "\\textbackslash{}"},
                                 {"^", "\\textasciicircum{}"},
                                 {"~", "\\textasciitilde{}"},
                                 {"±", "$\\pm$"},
                                 {"–", "--"},
                                 {"↓", "$\\downarrow$"},
                                 {"↑", "$\\uparrow$"}}) {
    out = replaced(std::move(out), from, to);
  }
  return out;
}

}  // namespace

StudyTable make_table(const Study& study, const StudyResults& results) {
  StudyTable table;
  table.title = study.title;
  table.note = note_text(study, results);
  const bool settings = !study.settings.front().name.empty();
  if (settings) {
    table.header.push_back("setting");
    table.names = 2;
  }
  table.header.push_back("method");
  for (const StudyColumn& column : study.columns) {
    table.header.push_back(column.title + (column.lower_is_better ? " ↓" : " ↑"));
    if (in_paper(study, column)) table.header.push_back("paper");
  }
  for (size_t setting = 0; setting < study.settings.size(); ++setting) {
    std::vector<Row> rows;
    for (const StudyMethod& method : study.methods) {
      Row row{{}, rows.empty()};
      if (settings) row.entries.push_back({row.first ? study.settings[setting].name : ""});
      row.entries.push_back({method.name});
      rows.push_back(std::move(row));
    }
    for (const StudyColumn& column : study.columns) add_column(study, results, setting, column, rows);
    table.rows.insert(table.rows.end(), rows.begin(), rows.end());
  }
  return table;
}

std::string to_markdown(const StudyTable& table) {
  std::string text = fmt::format("**{}**\n\n", table.title);
  const auto add = [&](const std::string& entry) { text += fmt::format("| {} ", escaped(entry, "|")); };
  for (const std::string& title : table.header) add(title);
  text += "|\n";
  for (size_t i = 0; i < table.header.size(); ++i) text += i < table.names ? "| --- " : "| ---: ";
  text += "|\n";
  for (const Row& row : table.rows) {
    for (const Entry& entry : row.entries) add(entry.best ? "**" + entry.text + "**" : entry.text);
    text += "|\n";
  }
  return fmt::format("{}\n{}\n", text, table.note);
}

std::string to_latex(const StudyTable& table) {
  std::string text = fmt::format("% needs \\usepackage{{booktabs}}\n\\begin{{table}}\n\\caption{{{} {}}}\n",
                                 latex(table.title + "."), latex(table.note));
  text += fmt::format("\\begin{{tabular}}{{{}{}}}\n\\toprule\n", std::string(table.names, 'l'),
                      std::string(table.header.size() - table.names, 'r'));
  std::vector<std::string> line;
  for (const std::string& title : table.header) line.push_back(latex(title));
  text += fmt::format("{} \\\\\n", fmt::join(line, " & "));
  for (const Row& row : table.rows) {
    line.clear();
    for (const Entry& entry : row.entries) {
      line.push_back(entry.best ? fmt::format("\\textbf{{{}}}", latex(entry.text)) : latex(entry.text));
    }
    text += fmt::format("{}{} \\\\\n", row.first ? "\\midrule\n" : "", fmt::join(line, " & "));
  }
  return text + "\\bottomrule\n\\end{tabular}\n\\end{table}\n";
}

std::string to_text(const StudyTable& table, const Terminal& where) {
  const std::string note = where.utf8 ? table.note : to_ascii(table.note);
  return fmt::format("{}\n\n{}\n{}\n", table.title, to_text(static_cast<const TextTable&>(table), where),
                     note);
}

}  // namespace poem
