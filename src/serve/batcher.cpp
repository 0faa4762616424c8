#include "serve/batcher.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>

#include "core/runtime.h"

namespace poem {

// Begins when its threads were taken from those that are free.
class Batcher::Turn {
 public:
  Turn(Batcher& batcher, int threads, int64_t images)
      : batcher_(batcher), threads_(threads), images_(std::max<int64_t>(images, 1)) {
    if (batcher.workers_.size() > 1) use_threads_here(threads);
  }
  ~Turn() {
    const std::chrono::duration<double> took = Clock::now() - start_;
    const std::lock_guard<std::mutex> lock(batcher_.mutex_);
    batcher_.free_threads_ += threads_;
    batcher_.image_seconds_ = took.count() * threads_ / static_cast<double>(images_);
    // A worker that was told to stop while no thread was free waits for one too.
    if (batcher_.stopping_ || !batcher_.queue_.empty()) batcher_.changed_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  Batcher& batcher_;
  const int threads_;
  const int64_t images_;
  const Clock::time_point start_ = Clock::now();
};

Batcher::Batcher(const Limits& limits, int threads) : limits_(limits), free_threads_(threads) {
  for (int i = 0; i < threads; ++i)
    workers_.emplace_back([this, all = at::get_num_threads()] {
      use_threads_here(all);
      work();
    });
}

Batcher::~Batcher() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

std::optional<std::vector<Verdict>> Batcher::judge(std::shared_ptr<const Detector> detector,
                                                   at::Tensor pixels) {
  if (!take_thread(pixels.size(0))) {
    auto verdicts = submit(std::move(detector), std::move(pixels));
    return verdicts ? std::optional(verdicts->get()) : std::nullopt;
  }
  const Turn turn(*this, 1, pixels.size(0));
  return detector->judge(pixels);
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
  for (Batch batch = take(); !batch.requests.empty(); batch = take()) {
    const Turn turn(*this, batch.threads, batch.images);
    judge(batch.requests);
  }
}

Batcher::Batch Batcher::take() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return free_threads_ > 0 && (stopping_ || !queue_.empty()); });
  // Threads that are busy get a share too, and no batch is long: if one took all, the others would soon have
  // nothing to do until it ends. But a few images that take long take less time together.
  constexpr int64_t kFew = 4;
  const auto requests = static_cast<int64_t>(queue_.size()), workers = static_cast<int64_t>(workers_.size());
  const int64_t most = (requests + workers - 1) / workers;
  Batch batch;
  while (static_cast<int64_t>(batch.requests.size()) < most) {
    const Request& next = queue_.front();
    const int64_t images = batch.images + next.pixels.size(0);
    const bool fits = images <= limits_.batch && (workers == 1 || images <= kFew || worth(images) <= 1);
    if (!batch.requests.empty() && (!fits || next.detector != batch.requests.front().detector)) break;
    batch.images += next.pixels.size(0);
    batch.requests.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  if (batch.requests.empty()) return batch;
  batch.threads =
      threads_for(batch.images, free_threads_ / static_cast<int>(std::min<int64_t>(free_threads_, requests)));
  free_threads_ -= batch.threads;
  waiting_ -= batch.images;
  ++batches_;
  return batch;
}

// Whether a request can be judged at once, and in so little time that the thread that asks may do it: each
// keeps the memory that it has once computed with.
bool Batcher::take_thread(int64_t images) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!queue_.empty() || free_threads_ == 0 || worth(images) > 1) return false;
  --free_threads_;
  ++batches_;
  return true;
}

// How many threads the work for so many images occupies well: threads of one forward pass wait for each other
// after every layer, which must be little beside their work.
double Batcher::worth(int64_t images) const {
  constexpr double kWorthAThread = 0.004;  // seconds
  return static_cast<double>(images) * image_seconds_ / kWorthAThread;
}

int Batcher::threads_for(int64_t images, int most) const {
  constexpr double kMost = 16;  // every worker may once have had that many
  return std::clamp(static_cast<int>(std::min(worth(images), kMost)), 1, most);
}

void Batcher::judge(std::vector<Request>& requests) {
  std::vector<Verdict> verdicts;
  try {
    std::vector<at::Tensor> pixels;
    for (const Request& request : requests) pixels.push_back(request.pixels);
    verdicts = requests.front().detector->judge(pixels.size() == 1 ? pixels.front() : at::cat(pixels));
  } catch (...) {
    for (Request& request : requests) request.verdicts.set_exception(std::current_exception());
    return;
  }
  auto first = verdicts.begin();
  for (Request& request : requests) {
    const auto last = first + request.pixels.size(0);
    request.verdicts.set_value({first, last});
    first = last;
  }
}

}  // namespace poem
