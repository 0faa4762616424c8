#include "serve/service_metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace poem {
namespace {

std::string heading(const std::string& name, const std::string& help, const char* type) {
  return fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
}

}  // namespace

void ServiceMetrics::Histogram::add(double value) {
  ++counts[std::lower_bound(bounds.begin(), bounds.end(), value) - bounds.begin()];
}

std::string ServiceMetrics::Histogram::text(const std::string& name, const std::string& help,
                                            const std::string& label) const {
  std::string text = heading(name, help, "histogram");
  int64_t count = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    count += counts[i];  // Prometheus counts everything up to the bound
    text += fmt::format("{}_bucket{{{}{}le=\"{}\"}} {}\n", name, label, label.empty() ? "" : ",",
                        i < bounds.size() ? fmt::format("{}", bounds[i]) : "+Inf", count);
  }
  return text + fmt::format("{}_count{} {}\n", name, label.empty() ? "" : "{" + label + "}", count);
}

void ServiceMetrics::add_request(const std::string& path, int status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++requests_[{path, status}];
}

void ServiceMetrics::add_time(double seconds) {
  const std::lock_guard<std::mutex> lock(mutex_);
  seconds_.add(seconds);
  sum_of_seconds_ += seconds;
}

void ServiceMetrics::add_verdict(const std::string& verdict, double score) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++verdicts_[verdict];
  scores_.add(score);
  unknown_.push_back(verdict == "unknown");
  if (unknown_.size() > kWindow) unknown_.pop_front();
}

void ServiceMetrics::add_unreadable() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++unreadable_;
}

void ServiceMetrics::set_detector(const std::string& name, std::vector<double> score_bounds) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (name == detector_ && score_bounds == scores_.bounds) return;
  detector_ = name;
  scores_ = Histogram(std::move(score_bounds));
}

std::string ServiceMetrics::text(const Gauges& gauges) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string text = heading("poem_requests_total", "Requests by path and status.", "counter");
  for (const auto& [key, count] : requests_)
    text +=
        fmt::format("poem_requests_total{{path=\"{}\",status=\"{}\"}} {}\n", key.first, key.second, count);
  text += seconds_.text("poem_predict_seconds", "Time from a request to its answer.", "");
  text += fmt::format("poem_predict_seconds_sum {}\n", sum_of_seconds_);
  text += heading("poem_images_total", "Images by verdict.", "counter");
  for (const auto& [verdict, count] : verdicts_)
    text += fmt::format("poem_images_total{{verdict=\"{}\"}} {}\n", verdict, count);
  text += fmt::format("poem_images_total{{verdict=\"unreadable\"}} {}\n", unreadable_);
  text += scores_.text("poem_score", "Scores of images by detector; higher means known.",
                       fmt::format("detector=\"{}\"", detector_));
  text += heading("poem_unknown_share", "Share of unknown images among the last 1000: drift shows here.",
                  "gauge");
  const auto unknown = static_cast<double>(std::count(unknown_.begin(), unknown_.end(), true));
  text += fmt::format("poem_unknown_share {}\n",
                      unknown_.empty() ? 0 : unknown / static_cast<double>(unknown_.size()));
  for (const auto& [name, gauge] : gauges)
    text += heading(name, gauge.help, "gauge") + fmt::format("{} {}\n", name, gauge.value);
  return text;
}

}  // namespace poem
