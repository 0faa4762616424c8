// A team whose ranks are threads of this process.
//
//   as_team(3, [](const Team& team) { … });   // runs on three threads; the first exception is thrown here
#pragma once
#include <ATen/core/grad_mode.h>

#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "dist/team.h"

namespace poem {

inline Place thread_place(int rank, int size) {
  Place place;
  place.rank = place.local_rank = rank;
  place.size = place.local_size = size;
  return place;
}

inline void as_team(int size, const std::function<void(const Team&)>& work) {
  if (size == 1) return work(Team());
  const auto channels = connect_threads(size, std::chrono::seconds(20));
  std::vector<std::exception_ptr> problems(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        work(Team(channels[rank](), thread_place(rank, size)));
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
