#include "report/theory_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/file.h"
#include "report/plot.h"
#include "study/gaussian_model.h"

namespace poem {
namespace {

bool constrained(const TheoryCase& c) { return std::isfinite(c.epsilon); }

// The theorem covers only its own model and ε ≤ 1.
std::optional<double> bound_of(const TheoryCase& c, double sigma) {
  if (c.extended || !(c.epsilon <= 1)) return std::nullopt;
  return theorem_bound(c, sigma);
}

std::optional<double> rate_bound_of(const TheoryCase& c, double sigma) {  // of FPR and FNR
  const auto bound = bound_of(c, sigma);
  return bound ? std::optional<double>(upper_tail(*bound)) : std::nullopt;
}

// Empty if the proof makes no claim: in the extended model, for steps that depend on ε if there is no ε, and
// for the theorem itself if ε > 1.
std::optional<double> share_violated(const TheoryRow& row, int step) {
  const bool needs_epsilon = step == kTheta2Along || step == kAlong || step == kTheorem;
  if (row.extended || (needs_epsilon && !constrained(row))) return std::nullopt;
  if (step == kTheorem && row.epsilon > 1) return std::nullopt;
  return row.violated[step];
}

using Column = std::pair<std::string, std::function<std::optional<double>(const TheoryRow&)>>;

std::vector<Column> columns(double sigma) {
  std::vector<Column> all = {
      {"d", [](const TheoryRow& r) { return static_cast<double>(r.dimension); }},
      {"n", [](const TheoryRow& r) { return static_cast<double>(r.samples); }},
      {"r0", [](const TheoryRow& r) { return r.signal; }},
      {"epsilon",
       [](const TheoryRow& r) { return constrained(r) ? std::optional<double>(r.epsilon) : std::nullopt; }},
      {"ratio", [](const TheoryRow& r) { return r.ratio.mean; }},
      {"ratio_deviation", [](const TheoryRow& r) { return r.ratio.deviation; }},
      {"ratio_bound", [=](const TheoryRow& r) { return bound_of(r, sigma); }},
      {"fpr", [](const TheoryRow& r) { return r.fpr; }},
      {"fnr", [](const TheoryRow& r) { return r.fnr; }},
      {"rate_bound", [=](const TheoryRow& r) { return rate_bound_of(r, sigma); }},
  };
  for (int step = 0; step < kSteps; ++step) {
    all.emplace_back(std::string("violated_") + kStepNames[step],
                     [=](const TheoryRow& r) { return share_violated(r, step); });
  }
  return all;
}

const char* model_name(const TheoryCase& c) { return c.extended ? "extended" : "theorem"; }

std::string to_csv(const TheorySettings& settings, const std::vector<TheoryRow>& rows) {
  const auto table = columns(settings.sigma);
  std::string csv = "model";
  for (const Column& column : table) csv += "," + column.first;
  for (const TheoryRow& row : rows) {
    csv += fmt::format("\n{}", model_name(row));
    for (const Column& column : table) {
      const auto value = column.second(row);
      csv += value ? fmt::format(",{:.8g}", *value) : ",";
    }
  }
  return csv + "\n";
}

std::string to_json_text(const TheorySettings& settings, const std::vector<TheoryRow>& rows) {
  nlohmann::ordered_json json;
  json["seed"] = settings.seed;
  json["repeats"] = settings.repeats;
  json["sigma"] = settings.sigma;
  for (const TheoryRow& row : rows) {
    nlohmann::ordered_json entry;
    entry["model"] = model_name(row);
    for (const Column& column : columns(settings.sigma)) {
      const auto value = column.second(row);
      if (value) entry[column.first] = *value;
    }
    json["rows"].push_back(entry);
  }
  return json.dump(1) + "\n";
}

// The figure of a row that a picture shows; `bound` may be empty.
struct Quantity {
  std::string name, title;
  bool log;
  std::function<double(const TheoryRow&)> measured;
  std::function<std::optional<double>(const TheoryRow&)> bound;
};

// The lines of one n over ε: the measured figure, the bound, and the figure of unconstrained outliers.
void add_lines(Panel& panel, const std::vector<TheoryRow>& rows, const TheorySettings& settings,
               size_t sample, const Quantity& quantity) {
  constexpr Ink kInks[] = {Ink::kBlue, Ink::kOrange, Ink::kGreen, Ink::kRed, Ink::kText};
  const int64_t n = settings.samples[sample];
  const Ink ink = kInks[sample % std::size(kInks)];
  Line measured{{}, {}, ink, Dash::kSolid, fmt::format("n = {}", n)}, bound{{}, {}, ink, Dash::kDashed, ""},
      level{{}, {}, ink, Dash::kDotted, fmt::format("n = {}, any outliers", n)};
  for (const TheoryRow& row : rows) {
    if (row.samples != n) continue;
    if (!constrained(row)) {
      level.x = {panel.x.low, panel.x.high};
      level.y = {quantity.measured(row), quantity.measured(row)};
      continue;
    }
    measured.x.push_back(row.epsilon);
    measured.y.push_back(quantity.measured(row));
    if (const auto value = quantity.bound(row)) {
      bound.x.push_back(row.epsilon);
      bound.y.push_back(*value);
      bound.label = fmt::format("n = {}, the theorem's bound", n);
    }
  }
  panel.lines.insert(panel.lines.end(), {measured, bound, level});
}

void fit_y_axis(Panel& panel) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const Line& line : panel.lines) {
    for (double y : line.y) {
      low = std::min(low, y);
      high = std::max(high, y);
    }
  }
  if (panel.y.log) {
    panel.y.low = std::pow(10, std::floor(std::log10(std::max(low, 1e-300))));
    panel.y.high = std::pow(10, std::ceil(std::log10(high)));
    if (panel.y.low == panel.y.high) panel.y.low /= 10;
  } else {
    panel.y.low = std::min(0.0, low);
    panel.y.high = 1.1 * high;
  }
}

Figure epsilon_figure(const std::vector<TheoryRow>& rows, const TheorySettings& settings, bool extended,
                      const Quantity& quantity) {
  const auto [least, most] = std::minmax_element(settings.epsilons.begin(), settings.epsilons.end());
  const std::string description = fmt::format(
      "One panel for each dimension d (columns) and signal r0 (rows). Solid: outliers whose boundary "
      "score is within epsilon; dotted: outliers without this constraint{}.",
      extended ? "" : "; dashed: the theorem's bound");
  Figure figure{quantity.title, description, static_cast<int64_t>(settings.dimensions.size()), {}};
  for (double r0 : settings.signals) {
    for (int64_t d : settings.dimensions) {
      std::vector<TheoryRow> shown;
      std::copy_if(rows.begin(), rows.end(), std::back_inserter(shown), [&](const TheoryRow& row) {
        return row.extended == extended && row.signal == r0 && row.dimension == d;
      });
      Panel panel{fmt::format("d = {}, r₀ = {:g}", d, r0),
                  {"ε", *least * 0.9, *most * 1.1, true},
                  {quantity.name, 0, 1, quantity.log},
                  {},
                  {},
                  {}};
      for (size_t i = 0; i < settings.samples.size(); ++i) add_lines(panel, shown, settings, i, quantity);
      fit_y_axis(panel);
      figure.panels.push_back(panel);
    }
  }
  return figure;
}

}  // namespace

void write_theory(const TheorySettings& settings, const std::vector<TheoryRow>& rows,
                  const std::string& folder) {
  const double sigma = settings.sigma;
  const auto ratio = [](const TheoryRow& r) { return r.ratio.mean; };
  const auto fpr = [](const TheoryRow& r) { return r.fpr; };
  const auto fnr = [](const TheoryRow& r) { return r.fnr; };
  const auto ratio_bound = [=](const TheoryRow& r) { return bound_of(r, sigma); };
  const auto rate_bound = [=](const TheoryRow& r) { return rate_bound_of(r, sigma); };
  const auto path = [&](const char* name) { return folder + "/" + name; };
  const auto draw = [&](const char* name, bool extended, const Quantity& quantity) {
    write_file(path(name), to_svg(epsilon_figure(rows, settings, extended, quantity)));
  };
  write_file(path(kTheoryMark), to_json_text(settings, rows));
  write_file(path("theory.csv"), to_csv(settings, rows));
  draw("ratio.svg", false,
       {"μᵀθ / σ‖θ‖", "Separation of the classifier, higher is better", false, ratio, ratio_bound});
  draw("fpr.svg", false,
       {"FPR = FNR", "Error rate of the classifier, lower is better", true, fpr, rate_bound});
  draw("extended_ratio.svg", true,
       {"μᵀθ / σ‖θ‖", "Extended model: separation of the classifier, higher is better", false, ratio,
        ratio_bound});
  draw("extended_fpr.svg", true,
       {"FPR, worst test law", "Extended model: false positive rate of the classifier, lower is better", true,
        fpr, rate_bound});
  draw("extended_fnr.svg", true,
       {"FNR, worst test law", "Extended model: false negative rate of the classifier, lower is better", true,
        fnr, rate_bound});
}

TextTable to_table(const TheorySettings& settings, const std::vector<TheoryRow>& rows) {
  const double tightest = *std::min_element(settings.epsilons.begin(), settings.epsilons.end());
  TextTable table{{"d", "n", "r0", "ratio", "any", "FPR", "any", "bound", "violated"}, 0, {}};
  for (const TheoryRow& row : rows) {
    if (row.extended || row.epsilon != tightest) continue;
    const auto any = std::find_if(rows.begin(), rows.end(), [&](const TheoryRow& other) {
      return !other.extended && !constrained(other) && other.dimension == row.dimension &&
             other.samples == row.samples && other.signal == row.signal;
    });
    const auto bound = bound_of(row, settings.sigma), violated = share_violated(row, kTheorem);
    table.rows.push_back({{{fmt::to_string(row.dimension)},
                           {fmt::to_string(row.samples)},
                           {fmt::format("{:g}", row.signal)},
                           {fmt::format("{:.4f}", row.ratio.mean)},
                           {fmt::format("{:.4f}", any->ratio.mean)},
                           {fmt::format("{:.3g}", row.fpr)},
                           {fmt::format("{:.3g}", any->fpr)},
                           {bound ? fmt::format("{:.4f}", *bound) : "-"},
                           {violated ? fmt::format("{:.1f}%", 100 * *violated) : "-"}}});
  }
  return table;
}

}  // namespace poem
