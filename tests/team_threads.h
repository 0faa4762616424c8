// A team whose ranks are threads of this process.
//
//   as_team(3, [](const Team& team) { … });   // runs on three threads; the first exception is thrown here
//   as_team(3, work, [](int rank, auto channel) { return std::make_unique<Watched>(std::move(channel)); });
#pragma once
#include <ATen/core/grad_mode.h>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dist/team.h"

namespace poem {

inline Place thread_place(int rank, int size) {
  Place place;
  place.rank = place.local_rank = rank;
  place.size = place.local_size = size;
  return place;
}

// A channel that does what another does. Tests change a part of it.
class ChannelAround : public Channel {
 public:
  explicit ChannelAround(std::unique_ptr<Channel> channel) : channel_(std::move(channel)) {}
  std::function<void()> start_sum(const at::Tensor& tensor) override { return channel_->start_sum(tensor); }
  at::Tensor gather(const at::Tensor& own) override { return channel_->gather(own); }
  void close() override { channel_->close(); }
  void write(const std::string& key, const std::string& text) override { channel_->write(key, text); }
  std::string read(const std::string& key) override { return channel_->read(key); }
  bool has(const std::string& key) override { return channel_->has(key); }
  int64_t count(const std::string& key) override { return channel_->count(key); }

 private:
  std::unique_ptr<Channel> channel_;
};

using Wrap = std::function<std::unique_ptr<Channel>(int rank, std::unique_ptr<Channel>)>;

inline void as_team(
    int size, const std::function<void(const Team&)>& work,
    const Wrap& wrap = [](int, std::unique_ptr<Channel> channel) { return channel; }) {
  if (size == 1) return work(Team());
  const auto channels = connect_threads(size, std::chrono::seconds(20));
  std::vector<std::exception_ptr> problems(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        work(Team(wrap(rank, channels[rank]()), thread_place(rank, size)));
      } catch (...) {
        problems[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& problem : problems) {
    if (problem) std::rethrow_exception(problem);
  }
}

}  // namespace poem
