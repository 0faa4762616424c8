// A channel whose short messages go through memory that the ranks of one machine share. While all cores
// compute, Gloo takes about a millisecond to sum a few numbers, because several of its threads must be woken
// in turn. BatchNorm over a team asks for dozens of such sums in every step.
//
//   channel = share_memory(std::move(channel), rank, size, timeout);   // the same if memory cannot be shared
#pragma once
#include <chrono>
#include <memory>

#include "dist/channel.h"

namespace poem {

// All ranks call it at the same time. Tensors on a CPU only.
std::unique_ptr<Channel> share_memory(std::unique_ptr<Channel> channel, int rank, int size,
                                      std::chrono::milliseconds timeout);

}  // namespace poem
