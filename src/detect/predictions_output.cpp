#include "detect/predictions_output.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/json_text.h"
#include "core/npy.h"
#include "core/text.h"
#include "core/text_table.h"

namespace poem {
namespace {

std::string predicted(const Detector& detector, const Verdict& verdict) {
  return verdict.label < 0 ? "" : detector.class_names[verdict.label];
}

std::string rounded(double share) { return std::isnan(share) ? "" : fmt::format("{:.6g}", share); }

}  // namespace

std::string csv_head() { return "path,verdict,predicted,probability,score,threshold,p_value,error\n"; }

std::string csv_line(const Detector& detector, const Prediction& prediction) {
  const Verdict& verdict = prediction.verdict;
  if (!prediction.error.empty())
    return fmt::format("{},,,,,,,{}\n", csv_field(prediction.path), csv_field(prediction.error));
  return fmt::format("{},{},{},{},{},{},{},\n", csv_field(prediction.path), csv_field(detector.word(verdict)),
                     csv_field(predicted(detector, verdict)), rounded(verdict.probability), verdict.score,
                     *detector.threshold, rounded(verdict.p_value));
}

std::string json_line(const Detector& detector, const Prediction& prediction) {
  using nlohmann::ordered_json;
  const Verdict& verdict = prediction.verdict;
  ordered_json line = {{"path", prediction.path}};
  if (prediction.error.empty()) {
    line["verdict"] = detector.word(verdict);
    if (verdict.label >= 0) {
      line["predicted"] = predicted(detector, verdict);
      line["probability"] = verdict.probability;
    }
    line["score"] = verdict.score;
    line["threshold"] = *detector.threshold;
    if (!std::isnan(verdict.p_value)) line["p_value"] = verdict.p_value;
  } else {
    line["error"] = prediction.error;
  }
  return json_text(line) + "\n";
}

std::string to_table(const Detector& detector, const std::vector<Prediction>& predictions,
                     const Terminal& where) {
  TextTable table{{"path", "verdict", "probability", "score", "threshold", "p"}, 2, {}};
  for (const auto& [path, verdict, error, source] : predictions) {
    TextTable::Row row{{{printable(path)}, {printable(error)}, {""}, {""}, {""}, {""}}};
    if (error.empty()) {
      row.entries = {{printable(path)},
                     {printable(detector.word(verdict)), verdict.known},
                     {std::isnan(verdict.probability) ? "" : fmt::format("{:.4f}", verdict.probability)},
                     {fmt::format("{:.4f}", verdict.score)},
                     {fmt::format("{:.4f}", *detector.threshold)},
                     {std::isnan(verdict.p_value) ? "" : fmt::format("{:.4f}", verdict.p_value)}};
    }
    table.rows.push_back(row);
  }
  return to_text(table, where);
}

std::string to_npy(const Detector& detector, const std::vector<Prediction>& predictions) {
  constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
  RecordField path{"path", {}, {}}, verdict{"verdict", {}, {}}, class_name{"predicted", {}, {}},
      probability{"probability", {}, {}}, score{"score", {}, {}}, threshold{"threshold", {}, {}},
      p_value{"p_value", {}, {}}, error{"error", {}, {}};
  for (const Prediction& one : predictions) {
    const bool judged = one.error.empty();
    path.texts.push_back(one.path);
    verdict.texts.push_back(judged ? detector.word(one.verdict) : "");
    class_name.texts.push_back(judged ? predicted(detector, one.verdict) : "");
    probability.numbers.push_back(judged ? one.verdict.probability : kMissing);
    score.numbers.push_back(judged ? one.verdict.score : kMissing);
    threshold.numbers.push_back(*detector.threshold);
    p_value.numbers.push_back(judged ? one.verdict.p_value : kMissing);
    error.texts.push_back(one.error);
  }
  return npy_records({path, verdict, class_name, probability, score, threshold, p_value, error});
}

}  // namespace poem
