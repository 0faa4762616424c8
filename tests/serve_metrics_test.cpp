#include <gtest/gtest.h>

#include <sstream>

#include "serve/service_metrics.h"

namespace poem {
namespace {

bool has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(ServiceMetrics, CountsInPrometheusFormat) {
  ServiceMetrics metrics;
  metrics.set_detector("abc", {1, 2});
  metrics.add_request("/v1/predict", 200);
  metrics.add_request("/v1/predict", 429);
  for (const double seconds : {0.003, 0.02}) metrics.add_time(seconds);
  metrics.add_verdict("known", 2);  // a bound belongs to its own bucket
  metrics.add_verdict("unknown", 0.5);
  metrics.add_verdict("known", 7);
  metrics.add_unreadable();
  const std::string text = metrics.text({{"poem_queue_images", {"Images that wait.", 3}}});
  EXPECT_TRUE(has(text, "poem_requests_total{path=\"/v1/predict\",status=\"429\"} 1")) << text;
  EXPECT_TRUE(has(text, "poem_predict_seconds_bucket{le=\"0.0025\"} 0"));
  EXPECT_TRUE(has(text, "poem_predict_seconds_bucket{le=\"0.005\"} 1"));
  EXPECT_TRUE(has(text, "poem_predict_seconds_bucket{le=\"+Inf\"} 2"));
  EXPECT_TRUE(has(text, "poem_predict_seconds_count 2"));
  EXPECT_TRUE(has(text, "poem_predict_seconds_sum 0.023"));
  EXPECT_TRUE(has(text, "poem_images_total{verdict=\"known\"} 2"));
  EXPECT_TRUE(has(text, "poem_images_total{verdict=\"unsure\"} 0"));
  EXPECT_TRUE(has(text, "poem_images_total{verdict=\"unreadable\"} 1"));
  EXPECT_TRUE(has(text, "poem_score_bucket{detector=\"abc\",le=\"1\"} 1"));
  EXPECT_TRUE(has(text, "poem_score_bucket{detector=\"abc\",le=\"2\"} 2"));
  EXPECT_TRUE(has(text, "poem_score_bucket{detector=\"abc\",le=\"+Inf\"} 3"));
  EXPECT_TRUE(has(text, "poem_score_count{detector=\"abc\"} 3"));
  EXPECT_TRUE(has(text, "poem_queue_images 3"));
}

// Prometheus takes a counter that falls for one of a service that was started again.
TEST(ServiceMetrics, NoSeriesFallsOrChangesItsBuckets) {
  ServiceMetrics metrics;
  metrics.set_detector("abc", {1, 2});
  for (const double score : {0.5, -7.0}) metrics.add_verdict("unknown", score);
  EXPECT_EQ(metrics.text({}).find("poem_score_sum"), std::string::npos);
  metrics.set_detector("abc", {1, 2});
  EXPECT_TRUE(has(metrics.text({}), "poem_score_count{detector=\"abc\"} 2"));
  metrics.set_detector("def", {1, 2});
  metrics.add_verdict("known", 5);
  const std::string text = metrics.text({});
  EXPECT_EQ(text.find("abc"), std::string::npos) << text;
  EXPECT_TRUE(has(text, "poem_score_count{detector=\"def\"} 1"));
  EXPECT_TRUE(has(text, "poem_images_total{verdict=\"unknown\"} 2"));
}

TEST(ServiceMetrics, EverySeriesHasAHelp) {
  const std::string text = ServiceMetrics().text({{"poem_queue_images", {"Images that wait.", 3}}});
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("# TYPE ", 0) != 0) continue;
    const std::string name = line.substr(7, line.find(' ', 7) - 7);
    EXPECT_NE(text.find("# HELP " + name + " "), std::string::npos) << name;
  }
}

TEST(ServiceMetrics, TheShareOfUnknownImagesSlides) {
  ServiceMetrics metrics;
  for (int i = 0; i < 1000; ++i) metrics.add_verdict("unknown", 0);
  EXPECT_TRUE(has(metrics.text({}), "poem_unknown_share 1"));
  for (int i = 0; i < 750; ++i) metrics.add_verdict("known", 0);
  EXPECT_TRUE(has(metrics.text({}), "poem_unknown_share 0.25"));
}

}  // namespace
}  // namespace poem
