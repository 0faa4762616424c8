#include "core/memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <new>

#include "expect_error.h"

namespace poem {
namespace {

TEST(Memory, IsWhatTheLimitOfTheProcessLeaves) {
  struct rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  constexpr uint64_t kRoom = 64 << 20;
  struct rlimit tight = before;
  tight.rlim_cur = pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) + kRoom;
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &tight), 0);
  const uint64_t limited = available_memory();
  ::setrlimit(RLIMIT_AS, &before);
  EXPECT_LE(limited, kRoom);
  EXPECT_GT(limited, kRoom / 2);
  EXPECT_GT(available_memory(), kRoom);
}

TEST(Memory, MoreThanThereIsIsAnErrorThatNamesBothNumbers) {
  EXPECT_NO_THROW(check_memory("a.npz", 0, ""));
  expect_error([] { check_memory("a.npz", uint64_t{1} << 60, "take part of it"); },
               {"a.npz", "needs 1099511627776 MiB of memory", "MiB are free", "take part of it"});
}

TEST(Memory, AllocationsThatFailAreNamed) {
  const auto name = [](const auto& work) {
    return [&work] { name_if_out_of_memory("mining.pool", "lower it", work); };
  };
  expect_error(name([]() -> int { throw std::bad_alloc(); }), {"mining.pool", "memory", "lower it"});
  expect_error(name([] { return at::empty({int64_t{1} << 55}); }), {"mining.pool", "memory", "lower it"});
  EXPECT_THROW(name([]() -> int { throw std::runtime_error("other"); })(), std::runtime_error);
  EXPECT_EQ(name_if_out_of_memory("a", "b", [] { return 3; }), 3);
}

}  // namespace
}  // namespace poem
