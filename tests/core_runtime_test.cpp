#include "core/runtime.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "core/interrupts.h"
#include "expect_error.h"
#include "release_interrupts.h"

namespace poem {
namespace {

TEST(Runtime, SetsAndTellsTheThreads) {
  const int before = at::get_num_threads();
  for (const int threads : {1, 2, 3}) {
    set_up_runtime(threads);
    EXPECT_EQ(runtime().threads, threads);
  }
  set_up_runtime(0);
  cpu_set_t allowed;  // fewer than the machine has where something limits them
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  EXPECT_EQ(runtime().threads, CPU_COUNT(&allowed));
  set_up_runtime(before);
}

TEST(Runtime, OtherThreadsComputeWithOne) {
  const int before = at::get_num_threads();
  set_up_runtime(3);
  int inside = 0;
  std::thread([&] { inside = at::get_num_threads(); }).join();
  EXPECT_EQ(inside, 1);
  EXPECT_EQ(at::get_num_threads(), 3);
  set_up_runtime(before);
}

TEST(Runtime, AThreadMayHaveANumberOfItsOwn) {
  const int all = at::get_num_threads();
  int inside = 0;
  std::thread([&] {
    use_threads_here(all + 1);
    inside = at::get_num_threads();
  }).join();
  EXPECT_EQ(inside, all + 1);
  EXPECT_EQ(at::get_num_threads(), all);
}

TEST(Runtime, TellsLibTorchAndTheCpu) {
  const Runtime r = runtime();
  EXPECT_EQ(std::count(r.libtorch.begin(), r.libtorch.end(), '.'), 2) << r.libtorch;
  EXPECT_FALSE(r.cpu_capability.empty());
  EXPECT_NE(r.cpu_capability, "unknown");
  EXPECT_EQ(r.cpu_capability.find('\n'), std::string::npos);
}

TEST(Runtime, PicksDevices) {
  EXPECT_TRUE(pick_device("cpu").is_cpu());
  EXPECT_EQ(pick_device("auto").is_cuda(), at::hasCUDA() && at::globalContext().hasCUDA());
  expect_error([] { pick_device("tpu"); }, {"device tpu", "auto, cpu and cuda"});
  if (!at::hasCUDA()) expect_error([] { pick_device("cuda"); }, {"device cuda", "use device cpu"});
}

TEST(Interrupts, AreNotedOnceAskedFor) {
  catch_interrupts();
  EXPECT_FALSE(interrupted());
  std::raise(SIGINT);
  EXPECT_TRUE(interrupted());
  EXPECT_TRUE(interrupted());
  catch_interrupts();
  EXPECT_FALSE(interrupted());
  release_interrupts();
}

TEST(Interrupts, AreCtrlCAndTheWishToEndAlike) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    catch_interrupts();
    std::raise(signal);
    EXPECT_TRUE(interrupted());
    EXPECT_EQ(interrupt_signal(), signal);
    EXPECT_THROW(stop_if_interrupted(), Interrupted);
  }
  std::signal(SIGHUP, SIG_IGN);  // as nohup starts a program
  catch_interrupts();
  std::raise(SIGHUP);
  EXPECT_FALSE(interrupted());
  release_interrupts();
}

TEST(InterruptsDeathTest, TheSecondOneEndsTheProgram) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";  // LibTorch may have started threads already
  for (const int signal : {SIGINT, SIGTERM}) {
    EXPECT_EXIT(
        {
          catch_interrupts();
          const SaveOnInterrupt saving;
          std::raise(signal);
          std::raise(signal);
        },
        testing::KilledBySignal(signal), "finishing this step and saving; .* again quits without saving");
  }
}

}  // namespace
}  // namespace poem
