// Calls that may wait for ever, for a process that hangs or a machine that is lost.
//
//   const bool there = in_time(end, [store, key] { return store->check({key}); });
#pragma once
#include <algorithm>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>
#include <utility>

namespace poem {

// What the call returns, or throws. If that takes until `end`, a std::runtime_error: the call is then left
// alone on its thread, so it must own all that it touches. `meanwhile` is called again and again, and may
// throw too.
template <class Call>
auto in_time(
    std::chrono::steady_clock::time_point end, Call call, void (*meanwhile)() = [] {}) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLook(20);
  std::packaged_task<decltype(call())()> task([call = std::move(call)]() mutable {
    Call own = std::move(call);  // ends before the caller goes on
    return own();
  });
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  while (result.wait_until(std::min(end, Clock::now() + kLook)) != std::future_status::ready) {
    meanwhile();
    if (Clock::now() >= end) throw std::runtime_error("no answer in time");
  }
  return result.get();
}

}  // namespace poem
