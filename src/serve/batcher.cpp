#include "serve/batcher.h"

#include <ATen/ATen.h>

namespace poem {

Batcher::Batcher(const Limits& limits) : limits_(limits), worker_([this] { work(); }) {}

Batcher::~Batcher() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

std::optional<std::future<std::vector<Verdict>>> Batcher::submit(std::shared_ptr<const Detector> detector,
                                                                 at::Tensor pixels) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const int64_t images = pixels.size(0);
  if (waiting_ > 0 && waiting_ + images > limits_.queue) return std::nullopt;
  queue_.push_back({std::move(detector), std::move(pixels), {}});
  waiting_ += images;
  changed_.notify_one();
  return queue_.back().verdicts.get_future();
}

int64_t Batcher::waiting() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return waiting_;
}

int64_t Batcher::batches() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return batches_;
}

void Batcher::work() {
  for (std::vector<Request> batch = take(); !batch.empty(); batch = take()) judge(batch);
}

std::vector<Batcher::Request> Batcher::take() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
  std::vector<Request> batch;
  int64_t images = 0;
  while (!queue_.empty()) {
    const Request& next = queue_.front();
    const bool fits = images + next.pixels.size(0) <= limits_.batch;
    if (!batch.empty() && (!fits || next.detector != batch.front().detector)) break;
    images += next.pixels.size(0);
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  waiting_ -= images;
  batches_ += batch.empty() ? 0 : 1;
  return batch;
}

void Batcher::judge(std::vector<Request>& batch) {
  std::vector<Verdict> verdicts;
  try {
    std::vector<at::Tensor> pixels;
    for (const Request& request : batch) pixels.push_back(request.pixels);
    verdicts = batch.front().detector->judge(at::cat(pixels));
  } catch (...) {
    for (Request& request : batch) request.verdicts.set_exception(std::current_exception());
    return;
  }
  auto first = verdicts.begin();
  for (Request& request : batch) {
    const auto last = first + request.pixels.size(0);
    request.verdicts.set_value({first, last});
    first = last;
  }
}

}  // namespace poem
