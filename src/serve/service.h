// A detector that answers requests, whatever brings them: the HTTP server in serve/server.h, or a test.
//
//   Service service("runs/mine/detector.safetensors", device, {});
//   const Answer answer = service.predict({{"photo.jpg", bytes}});
//   answer.status;   // 200
//   answer.body;     // {"results": [{"name": "photo.jpg", "verdict": "cat", "known": true, …}]}
//
// All calls may come from any number of threads.
#pragma once
#include <c10/core/Device.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "poem/detector.h"
#include "serve/batcher.h"
#include "serve/service_metrics.h"

namespace poem {

struct Upload {
  std::string name;
  std::string_view bytes;  // an image file, which the caller keeps
};

struct Answer {
  int status;
  std::string body;  // JSON
};

class Service {
 public:
  // Throws what Detector::load() throws, and an Error for a detector that has no threshold or does not see
  // colour images.
  Service(std::string path, at::Device device, const Batcher::Limits& limits);

  // Loads the detector again. Requests that have begun are answered by the one before; if it cannot be
  // loaded, that one stays and the Error is thrown.
  void reload();

  // One result per image: 200. An image that cannot be decoded is a result with an error; if no image can be,
  // the status is 422. No image: 400. More images than may wait: 413. No room among those that wait: 429.
  Answer predict(const std::vector<Upload>& uploads);
  // {"images": [{"name": …, "data": base64}, …]}; an unknown field is an error, status 400.
  Answer predict_json(const std::string& body);
  // A form with files; see read_form(). What cannot be understood: 400.
  Answer predict_form(const std::string& content_type, const std::string& body);

  std::string model() const;  // JSON: what the detector knows, and the histogram of its held-out ID scores
  std::string metrics_text() const;
  ServiceMetrics& metrics() { return metrics_; }

 private:
  std::shared_ptr<const Detector> current() const;
  std::shared_ptr<const Detector> load() const;
  at::Tensor decode(const Upload& upload, const Detector& detector);
  nlohmann::json result(const Detector& detector, const Verdict& verdict);

  const std::string path_;
  const at::Device device_;
  mutable std::mutex mutex_;  // of detector_
  std::shared_ptr<const Detector> detector_;
  ServiceMetrics metrics_;
  const int64_t most_images_;  // of a request
  std::mutex decoders_mutex_;
  std::condition_variable decoder_free_;
  int64_t free_decoders_;  // decoding takes memory: no more images at once than there are cores
  Batcher batcher_;
};

Answer problem(int status, const std::string& text);  // {"error": text}
Answer too_many_images(int64_t most);                 // of one request
// What to answer to a name that is too long; empty if it is not. Answers repeat the names.
std::optional<Answer> too_long_name(const std::string& name);

}  // namespace poem
