#include "study/differences.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace poem {
namespace {

using Figures = std::map<int64_t, double>;  // by seed

// P(|T| ≤ t): Abramowitz and Stegun 26.7.3 and 26.7.4.
double central_share(double t, int64_t freedom) {
  const double pi = std::acos(-1.0), angle = std::atan(t / std::sqrt(static_cast<double>(freedom)));
  const double sine = std::sin(angle), cosine = std::cos(angle);
  const bool odd = freedom % 2 == 1;
  double term = odd ? cosine : 1, sum = freedom == 1 ? 0 : term;
  for (int64_t k = odd ? 3 : 2; k < freedom; k += 2) {
    const auto n = static_cast<double>(k);
    term *= cosine * cosine * (n - 1) / n;
    sum += term;
  }
  return odd ? 2 / pi * (angle + sine * sum) : sine * sum;
}

std::vector<Figures> figures_of(const Study& study, const std::vector<CellResult>& results, size_t setting,
                                const StudyColumn& column) {
  std::vector<Figures> figures(study.methods.size());
  for (const CellResult& cell : results) {
    if (cell.setting != setting) continue;
    if (const auto value = column_value(cell, column)) figures[cell.method][cell.seed] = *value;
  }
  return figures;
}

double mean_of(const Figures& figures) {
  double sum = 0;
  for (const auto& figure : figures) sum += figure.second;
  return sum / static_cast<double>(figures.size());
}

size_t best_of(const std::vector<Figures>& figures, bool lower_is_better) {
  size_t seeds = 0;
  for (const Figures& of_method : figures) seeds = std::max(seeds, of_method.size());
  std::optional<size_t> best;
  for (size_t i = 0; i < figures.size(); ++i) {
    if (figures[i].size() < seeds) continue;
    const double gain = best ? mean_of(figures[*best]) - mean_of(figures[i]) : 0;
    if (!best || (lower_is_better ? gain > 0 : gain < 0)) best = i;
  }
  return *best;
}

}  // namespace

double student_quantile(double share, int64_t freedom) {
  double low = 0, high = 1;
  while (central_share(high, freedom) < share) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (central_share(middle, freedom) < share ? low : high) = middle;
  }
  return high;
}

std::optional<Differences> differences_from_best(const Study& study, const std::vector<CellResult>& results,
                                                 size_t setting, const StudyColumn& column) {
  const std::vector<Figures> figures = figures_of(study, results, setting, column);
  const auto known =
      std::count_if(figures.begin(), figures.end(), [](const Figures& f) { return !f.empty(); });
  if (known < 2) return std::nullopt;
  const size_t best = best_of(figures, column.lower_is_better);
  const double pairs = static_cast<double>(known) * static_cast<double>(known - 1) / 2;
  Differences all{best, 1 - 0.05 / pairs, {}};
  for (size_t method = 0; method < figures.size(); ++method) {
    std::vector<double> values;
    for (const auto& [seed, value] : figures[method]) {
      const auto other = figures[best].find(seed);
      if (other != figures[best].end()) values.push_back(value - other->second);
    }
    if (method == best || values.empty()) continue;
    const Summary summary = summarise(values);
    Difference difference{method, values.size(), *summary.mean, std::nullopt};
    if (summary.deviation) {
      const auto n = static_cast<int64_t>(values.size());
      difference.half =
          student_quantile(all.level, n - 1) * *summary.deviation / std::sqrt(static_cast<double>(n));
    }
    all.others.push_back(difference);
  }
  return all;
}

}  // namespace poem
