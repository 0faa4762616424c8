// What carries messages between the processes of a job: sums and gathered tensors, and a table of texts that
// all of them see. Team (dist/team.h) is what the rest of poem uses.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dist/place.h"

namespace poem {

// Another rank has failed and told the user why. Exit code 2 without a message.
struct SaidElsewhere : std::exception {};

// Calls of sum() and gather() must come in the same order on all ranks. Any call throws a std::exception if
// the others cannot be reached.
class Channel {
 public:
  virtual ~Channel() = default;

  // Replaces the tensor by its sum over all ranks. The sum is there once the returned function was called.
  virtual std::function<void()> start_sum(const at::Tensor& tensor) = 0;
  // The tensors of all ranks, which have one shape, along a new first dimension.
  virtual at::Tensor gather(const at::Tensor& own) = 0;
  // Ends all sums that are on their way, here and with the other ranks. The table remains. It may wait for
  // sums that wait for a rank that hangs.
  virtual void close() = 0;

  // The table. But for read(), these wait as long as rank 0 hangs, which keeps it (or as long as c10d lets
  // them wait).
  virtual void write(const std::string& key, const std::string& text) = 0;
  virtual std::string read(const std::string& key) = 0;  // waits until it is written; not for ever
  virtual bool has(const std::string& key) = 0;
  virtual int64_t count(const std::string& key) = 0;  // how often it was called with this key, with this call
};

// What must be the same for ranks to understand each other: "poem 0.1.0 (LibTorch 1.13.1, protocol 2)".
std::string own_build();

// Meets the other ranks at the place's address, at most so long. An Error if they do not come, if the address
// cannot be used, or if this poem was built without c10d. If ranks have different builds, were given
// different numbers of ranks, or some compute on a CPU and some on GPUs, it is an Error on one rank and
// SaidElsewhere on the others.
std::unique_ptr<Channel> connect(const Place& place, at::Device device, std::chrono::seconds timeout,
                                 const std::string& build = own_build());

// The channels of so many threads of this process, for tests: they need no port, and c10d stays in one file.
// Thread r calls the r-th function, all at the same time.
std::vector<std::function<std::unique_ptr<Channel>()>> connect_threads(int size,
                                                                       std::chrono::seconds timeout);

// The ranks on each GPU that several of them share. gpus[r] names the GPU of rank r.
std::vector<std::vector<int>> sharers(const std::vector<std::string>& gpus);

}  // namespace poem
