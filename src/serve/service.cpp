#include "serve/service.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "core/checksum.h"
#include "core/json_text.h"
#include "core/memory.h"
#include "core/runtime.h"
#include "detect/threshold.h"
#include "poem/error.h"
#include "poem/read.h"
#include "poem/version.h"
#include "serve/form.h"
#include "serve/json_uploads.h"

namespace poem {
namespace {

using nlohmann::json;

// Names come from the clients and may be any bytes.
std::string to_text(const json& document) { return json_text(document); }

json number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

// Upper bounds for the scores: quantiles of what the detector gave to held-out ID images, so that drift of
// the ID images shows as well as more unknown ones.
std::vector<double> score_buckets(const Detector& detector) {
  const std::vector<float>& scores = detector.held_out;
  std::set<double> bounds = {*detector.threshold};
  if (!scores.empty()) {
    for (const double share : {0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9})
      bounds.insert(scores[static_cast<size_t>(share * static_cast<double>(scores.size() - 1))]);
  }
  return {bounds.begin(), bounds.end()};
}

// The first digits of the file's SHA-256, which tell its scores in the metrics from those of another
// detector.
std::string short_checksum(const std::string& path) {
  constexpr size_t kAlgorithm = 7, kDigits = 12;  // "sha256:"
  return checksum(path, "sha256").value_or("sha256:").substr(kAlgorithm, kDigits);
}

struct Histogram {
  double low = 0, high = 0;
  std::vector<int64_t> counts;
};

Histogram histogram(const std::vector<float>& ascending) {
  constexpr int kBins = 40;
  if (ascending.empty()) return {};
  Histogram h{ascending.front(), ascending.back(), std::vector<int64_t>(kBins)};
  const double width = std::max(h.high - h.low, 1e-9);
  for (const float score : ascending)
    ++h.counts[std::min(kBins - 1, static_cast<int>(kBins * (score - h.low) / width))];
  return h;
}

}  // namespace

Answer problem(int status, const std::string& text) { return {status, to_text(json{{"error", text}})}; }

Answer too_many_images(int64_t most) {
  return problem(413, fmt::format("the request has more than the {} images that one may have", most));
}

std::optional<Answer> too_long_name(const std::string& name) {
  constexpr size_t kLongest = 4096;  // as the paths of most systems
  if (name.size() <= kLongest) return std::nullopt;
  return problem(400, fmt::format("an image has a name of {} bytes, {} are allowed", name.size(), kLongest));
}

Service::Service(std::string path, at::Device device, const Batcher::Limits& limits)
    : path_(std::move(path)),
      device_(device),
      most_images_(limits.queue),
      free_decoders_(std::max(1U, std::thread::hardware_concurrency())),
      batcher_(limits, device.is_cpu() ? runtime().threads : 1) {
  reload();
}

void Service::reload() {
  const auto written = [this] {
    std::error_code ignored;
    return std::filesystem::last_write_time(path_, ignored);
  };
  std::filesystem::file_time_type before;
  std::shared_ptr<const Detector> detector;
  std::string name;
  do {
    before = written();
    detector = load();
    name = short_checksum(path_);
  } while (written() != before);  // replaced in between
  const std::lock_guard<std::mutex> lock(mutex_);
  detector_ = std::move(detector);
  metrics_.set_detector(name, score_buckets(*detector_));
}

std::shared_ptr<const Detector> Service::load() const {
  auto detector = std::make_shared<Detector>(Detector::load(path_));
  check_threshold(*detector, path_);
  if (const int64_t channels = detector->network->spec().channels; channels != 3)
    throw Error(path_,
                fmt::format("sees images of {} channel{}, and image files have 3", channels,
                            channels == 1 ? "" : "s"),
                "serve a detector of colour images");
  detector->network->to(device_);
  return detector;
}

std::shared_ptr<const Detector> Service::current() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return detector_;
}

at::Tensor Service::decode(const Upload& upload, const Detector& detector) {
  constexpr uint64_t kMostPixels = 50'000'000;  // as a large camera has
  std::unique_lock<std::mutex> lock(decoders_mutex_);
  decoder_free_.wait(lock, [this] { return free_decoders_ > 0; });
  --free_decoders_;
  lock.unlock();
  const auto leave = [this] {
    const std::lock_guard<std::mutex> again(decoders_mutex_);
    ++free_decoders_;
    decoder_free_.notify_one();
  };
  try {
    at::Tensor image = name_if_out_of_memory(upload.name, "send a smaller image", [&] {
      return read_image(upload.name, std::string(upload.bytes), detector.size, kMostPixels);
    });
    leave();
    return image;
  } catch (...) {
    leave();
    throw;
  }
}

json Service::result(const Detector& detector, const Verdict& verdict) {
  metrics_.add_verdict(verdict.known ? "known" : verdict.unsure ? "unsure" : "unknown", verdict.score);
  json result = {{"verdict", detector.word(verdict)},
                 {"known", verdict.unsure ? json(nullptr) : json(verdict.known)},
                 {"score", number(verdict.score)},
                 {"threshold", *detector.threshold},
                 {"probability", number(verdict.probability)},
                 {"p_value", number(verdict.p_value)}};
  result["predicted"] = verdict.label >= 0 ? json(detector.class_names[verdict.label]) : json(nullptr);
  return result;
}

Answer Service::predict(const std::vector<Upload>& uploads) {
  if (uploads.empty()) return problem(400, "there is no image in the request");
  if (static_cast<int64_t>(uploads.size()) > most_images_) return too_many_images(most_images_);
  const std::shared_ptr<const Detector> detector = current();
  std::vector<json> results;
  std::vector<at::Tensor> images;
  for (const Upload& upload : uploads) {
    results.push_back({{"name", upload.name}});
    try {
      images.push_back(decode(upload, *detector));
    } catch (const Error& error) {
      metrics_.add_unreadable();
      results.back()["error"] = error.problem();
    }
  }
  if (!images.empty()) {
    const auto verdicts = batcher_.judge(detector, at::stack(images));
    if (!verdicts) return problem(429, "too many images are waiting; try again");
    auto next = results.begin();
    for (const Verdict& verdict : *verdicts) {
      while (next->contains("error")) ++next;
      next++->update(result(*detector, verdict));
    }
  }
  return {images.empty() ? 422 : 200, to_text(json{{"results", results}})};
}

Answer Service::predict_json(const std::string& body) {
  const auto read = read_json_uploads(body, most_images_);
  if (const auto* refusal = std::get_if<Answer>(&read)) return *refusal;
  std::vector<Upload> uploads;
  for (const JsonUpload& upload : std::get<std::vector<JsonUpload>>(read))
    uploads.push_back({upload.name, upload.bytes});
  return predict(uploads);
}

Answer Service::predict_form(const std::string& content_type, const std::string& body) {
  const auto read = read_form(content_type, body, most_images_);
  if (const auto* refusal = std::get_if<Answer>(&read)) return *refusal;
  return predict(std::get<std::vector<Upload>>(read));
}

std::string Service::model() const {
  const std::shared_ptr<const Detector> detector = current();
  const Histogram scores = histogram(detector->held_out);
  json model = {{"classes", detector->class_names},
                {"size", detector->size},
                {"threshold", *detector->threshold},
                {"score", detector->score->name()},
                {"version", version()},
                {"held_out", {{"low", scores.low}, {"high", scores.high}, {"counts", scores.counts}}}};
  if (detector->unsure) model["unsure_threshold"] = detector->unsure->threshold;
  if (detector->calibration) model["calibration"] = to_text(*detector->calibration);
  return to_text(model);
}

std::string Service::metrics_text() const {
  return metrics_.text(
      {{"poem_queue_images", {"Images that wait to be judged.", static_cast<double>(batcher_.waiting())}}});
}

}  // namespace poem
