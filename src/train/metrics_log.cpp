#include "train/metrics_log.h"

#include <filesystem>
#include <sstream>

#include "core/file.h"
#include "core/json_text.h"
#include "train/tensorboard.h"

namespace poem {

using nlohmann::ordered_json;

MetricsLog::MetricsLog(const RunFolder& folder, int64_t epochs) : folder_(folder) {
  if (std::filesystem::exists(folder.metrics)) read(epochs);
  // TensorBoard sees a run from its beginning, and no epoch that is yet to come again.
  write_events(folder.root, text());
}

void MetricsLog::add(const ordered_json& line) {
  lines_.push_back(line);
  write();
}

bool MetricsLog::has_results() const { return lines_.empty() || lines_.back().contains("results"); }

void MetricsLog::set_results(const ordered_json& results) {
  lines_.back()["results"] = results;
  write();
}

void MetricsLog::read(int64_t epochs) {
  std::istringstream text(read_file(folder_.metrics));
  for (std::string line; std::getline(text, line);) {
    const ordered_json entry = ordered_json::parse(line, nullptr, false);
    if (!entry.is_object() || !entry.contains("epoch") || !entry["epoch"].is_number_integer()) break;
    if (entry["epoch"].get<int64_t>() > epochs) break;
    lines_.push_back(entry);
  }
}

std::string MetricsLog::text() const {
  std::string text;
  for (const ordered_json& line : lines_) text += json_text(line) + "\n";
  return text;
}

void MetricsLog::write() const {
  const std::string lines = text();
  write_file(folder_.metrics, lines);
  write_events(folder_.root, lines);
}

}  // namespace poem
