// Judges the images of many requests together. Whenever the network is free it takes all requests that wait,
// up to a batch: nobody waits for a batch to fill, and under load the batches are large.
//
//   Batcher batcher({64, 256});
//   if (auto verdicts = batcher.submit(detector, pixels)) use(verdicts->get());
#pragma once
#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "poem/detector.h"

namespace poem {

class Batcher {
 public:
  struct Limits {
    int64_t batch = 64;   // images in one forward pass, unless a single request has more
    int64_t queue = 256;  // images that may wait
  };
  explicit Batcher(const Limits& limits);
  ~Batcher();  // judges what still waits

  // The verdicts of one request's images, n×C×size×size as Detector::judge() takes them. Empty if there is no
  // room in the queue. An empty queue takes a request of any size. What judge() throws, get() throws.
  std::optional<std::future<std::vector<Verdict>>> submit(std::shared_ptr<const Detector> detector,
                                                          at::Tensor pixels);
  int64_t waiting() const;  // images in the queue
  int64_t batches() const;  // forward passes so far

 private:
  struct Request {
    std::shared_ptr<const Detector> detector;
    at::Tensor pixels;
    std::promise<std::vector<Verdict>> verdicts;
  };
  void work();
  std::vector<Request> take();  // the next batch: requests in a row with one detector; empty at the end
  static void judge(std::vector<Request>& batch);

  const Limits limits_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> queue_;
  int64_t waiting_ = 0, batches_ = 0;
  bool stopping_ = false;
  std::thread worker_;  // last: it uses all of the above
};

}  // namespace poem
