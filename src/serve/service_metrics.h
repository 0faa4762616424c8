// What a service has done so far, in Prometheus' text format.
//
//   ServiceMetrics metrics;
//   metrics.add_request("/v1/predict", 200);
//   metrics.set_detector("3f2a9c0be177", {0, 5, 10});
//   metrics.add_verdict("known", 12.5);
//   metrics.text();
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace poem {

class ServiceMetrics {
 public:
  void add_request(const std::string& path, int status);
  void add_time(double seconds);  // of a request for verdicts

  // "known", "unsure" or "unknown".
  void add_verdict(const std::string& verdict, double score);
  void add_unreadable();  // an image that could not be decoded

  // From now on scores are those of this detector: a series of its own, in buckets with these upper bounds
  // (ascending). The detector before ends its series; the same one goes on with it.
  void set_detector(const std::string& name, std::vector<double> score_bounds);

  // Values that are known elsewhere, by name.
  struct Gauge {
    std::string help;
    double value;
  };
  using Gauges = std::map<std::string, Gauge>;
  std::string text(const Gauges& gauges) const;

 private:
  struct Histogram {
    std::vector<double> bounds;
    std::vector<int64_t> counts;  // one more than bounds: the last has no upper bound
    explicit Histogram(std::vector<double> upper) : bounds(std::move(upper)), counts(bounds.size() + 1) {}
    void add(double value);
    // `label`: NAME="VALUE" of the series, or nothing.
    std::string text(const std::string& name, const std::string& help, const std::string& label) const;
  };
  static constexpr size_t kWindow = 1000;  // images over which the share of unknown ones is taken

  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, int64_t> requests_;  // by path and status
  Histogram seconds_{{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}};
  double sum_of_seconds_ = 0;
  std::map<std::string, int64_t> verdicts_ = {{"known", 0}, {"unsure", 0}, {"unknown", 0}};
  int64_t unreadable_ = 0;
  std::string detector_;
  Histogram scores_{{}};      // their sum is not told: it may fall, which a counter never does
  std::deque<bool> unknown_;  // of the last kWindow images
};

}  // namespace poem
