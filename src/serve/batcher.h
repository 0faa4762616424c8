// Judges the images of many requests together, on as many threads as there are. Nobody waits for a batch to
// fill: a thread that is free takes its share of the requests that wait. So under load each thread has a
// batch of its own and waits for no other, and a lone request for much work gets up to 16 of the threads that
// are free. A lone request for little work is judged by the thread that asks.
//
//   Batcher batcher({64, 256}, /*threads=*/2);
//   if (auto verdicts = batcher.judge(detector, pixels)) use(*verdicts);
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
  explicit Batcher(const Limits& limits, int threads = 1);
  ~Batcher();  // judges what still waits

  // The verdicts of one request's images, n×C×size×size as Detector::judge() takes them. Empty if there is no
  // room in the queue. An empty queue takes a request of any size. Throws what Detector::judge() throws.
  std::optional<std::vector<Verdict>> judge(std::shared_ptr<const Detector> detector, at::Tensor pixels);

  // The same without waiting, never in this thread.
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
  struct Batch {  // requests in a row with one detector; none at the end
    std::vector<Request> requests;
    int64_t images = 0;
    int threads = 0;
  };
  class Turn;  // threads that judge, until they are free again
  void work();
  Batch take();
  bool take_thread(int64_t images);
  double worth(int64_t images) const;
  int threads_for(int64_t images, int most) const;
  static void judge(std::vector<Request>& requests);

  const Limits limits_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> queue_;
  int64_t waiting_ = 0, batches_ = 0;
  int free_threads_;
  double image_seconds_ = 0;  // of one thread for an image, as the last batch took
  bool stopping_ = false;
  std::vector<std::thread> workers_;  // last: they use all of the above
};

}  // namespace poem
