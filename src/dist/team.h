// The processes that train one network together. Each has a rank, from 0 on, and a part of every batch, of
// the pool and of the queue's images. A team of one does nothing, so that callers need no other code for it.
//
//   const Team team = join(place, device, timeout);
//   team.sum(statistics.gram);                             // over all ranks, in place
//   const at::Tensor logits = team.rows(own_logits, n);    // of the whole batch, differentiable
//
// Calls must come in the same order on all ranks. If another rank cannot be reached, a call throws an Error
// that names the rank, or SaidElsewhere if that rank ended with a message of its own; Interrupted if this
// process was asked to stop.
#pragma once
#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dist/channel.h"

namespace poem {

// [first, last) of a list.
struct Range {
  int64_t first, last;
  int64_t size() const { return last - first; }
};

class Team {
 public:
  Team();  // of one
  explicit Team(std::unique_ptr<Channel> channel, const Place& place);

  int rank() const;
  int size() const;
  int local_size() const;                     // ranks on this machine
  bool first() const { return rank() == 0; }  // the one that writes files

  // Over the ranks. The tensor must have the same shape everywhere.
  void sum(const at::Tensor& tensor) const;
  double sum(double value) const;
  std::function<void()> start_sum(const at::Tensor& tensor) const;  // done once the result was called
  bool any(bool value) const;
  void copy_first(const at::Tensor& tensor) const;  // replaces it by that of rank 0

  // This rank's part of so many entries: contiguous, in the order of the ranks.
  Range part(int64_t count) const;
  // The lists of all ranks, one after the other.
  std::vector<int64_t> joined(const std::vector<int64_t>& own) const;

  // Which rows of a batch this rank has: rank, rank + size, …, so that every rank has ID images and outliers.
  // rows() makes the matrix of all `total` rows from those of each rank. Every rank must compute the same
  // function of it: the gradient of `own` is that of its rows.
  at::Tensor rows(const at::Tensor& own, int64_t total) const;

  // Texts are for rare use: they go through rank 0. Each `topic` can be used once.
  std::vector<std::string> texts(const std::string& topic, const std::string& own) const;

  // Whether this rank shall print this text: the first rank to ask shall. If rank 0 has gone, which counts
  // them, one rank of every machine shall.
  bool says(const std::string& text) const;

  // What this rank has sent so far, if messages go around in a ring, and how long it has waited for others.
  int64_t bytes_sent() const;
  double seconds_waited() const;

 private:
  struct State;
  [[noreturn]] void lost(const std::exception& problem) const;
  void timed(int64_t shares, const std::function<void()>& exchange) const;

  std::shared_ptr<State> state_;  // null: a team of one
};

// Waits for all ranks of the place; a team of one if the place is alone. `timeout` bounds this wait and every
// later one.
Team join(const Place& place, at::Device device, std::chrono::seconds timeout);

}  // namespace poem
