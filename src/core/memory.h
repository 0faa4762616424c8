// Memory that is free, asked before much of it is taken: a system short of memory kills programs instead of
// refusing them.
//
//   check_memory("batch.npz[data.npy]", bytes, "take part of it");
//   at::Tensor all = name_if_out_of_memory("batch.npz", "take part of it", [&] { return at::cat(parts); });
#pragma once
#include <cstdint>
#include <exception>
#include <string>

#include "poem/error.h"

namespace poem {

// Bytes that this process can still have: the least of what the machine, its control groups (a container's or
// a job's limit) and ulimit leave. Pages of files that can be read again count as free.
uint64_t available_memory();

// An Error that names both numbers if so many bytes cannot be had.
void check_memory(const std::string& where, uint64_t bytes, const std::string& remedy);

// Whether the exception is the allocator's: std::bad_alloc or LibTorch's.
bool is_out_of_memory(const std::exception& problem);

// What `work` returns; where it runs out of memory, an Error.
template <class Work>
auto name_if_out_of_memory(const std::string& where, const std::string& remedy, const Work& work) {
  try {
    return work();
  } catch (const std::exception& problem) {
    if (!is_out_of_memory(problem)) throw;
  }
  throw Error(where, "does not fit into memory", remedy);
}

}  // namespace poem
