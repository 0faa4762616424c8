#include "study/claims.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "expect_error.h"
#include "temporary_folder.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

TEST(Claims, AreHeldByOneProcessAtATime) {
  const TemporaryFolder folder;
  {
    Claims one(folder / "claims", "study"), two(folder / "claims", "study");
    EXPECT_FALSE(one.alone());
    EXPECT_TRUE(one.take("a"));
    EXPECT_TRUE(one.take("a")) << "it has it already";
    EXPECT_FALSE(two.take("a"));
    EXPECT_TRUE(two.take("b"));
    one.release("a");
    EXPECT_TRUE(two.take("a"));
  }
  EXPECT_FALSE(fs::exists(folder / "claims")) << "nothing stays behind";
}

TEST(Claims, GoToExactlyOneOfManyThatAskAtOnce) {
  const TemporaryFolder folder;
  std::map<std::string, int> owners;
  std::mutex mutex;
  {
    std::vector<std::unique_ptr<Claims>> all;
    for (int i = 0; i < 8; ++i) all.push_back(std::make_unique<Claims>(folder / "claims", "study"));
    std::vector<std::thread> threads;
    for (const auto& claims : all) {
      threads.emplace_back([&owners, &mutex, &claims] {
        for (int i = 0; i < 50; ++i) {
          const std::string what = "network-" + std::to_string(i);
          if (!claims->take(what)) continue;
          const std::lock_guard<std::mutex> lock(mutex);
          ++owners[what];
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(owners.size(), 50);
  for (const auto& [what, count] : owners) EXPECT_EQ(count, 1) << what;
}

TEST(Claims, OfAKilledProcessAreFreeAtOnce) {
  const TemporaryFolder folder;
  if (::fork() == 0) {
    Claims killed(folder / "claims", "study");
    ::_exit(killed.take("a") ? 0 : 1);  // without a destructor
  }
  int status = 1;
  ::wait(&status);
  ASSERT_EQ(status, 0);
  ASSERT_TRUE(fs::exists(folder / "claims/a/0"));
  {
    Claims other(folder / "claims", "another study");
    EXPECT_TRUE(other.alone());
    EXPECT_TRUE(other.take("a"));
    EXPECT_TRUE(fs::exists(folder / "claims/a/1"));
  }
  EXPECT_FALSE(fs::exists(folder / "claims"));
}

TEST(Claims, OfAnotherMachineCountForAMinuteAfterItWasSeen) {
  const TemporaryFolder folder;
  folder.put("claims/a/0", "elsewhere\n");
  folder.put("claims/a/failed", "diverged");
  folder.put("claims/workers/elsewhere.1", "elsewhere\nstudy");
  Claims claims(folder / "claims", "study");
  EXPECT_FALSE(claims.alone());
  EXPECT_FALSE(claims.take("a"));
  EXPECT_EQ(claims.failure("a"), "diverged");
  for (const char* file : {"claims/a/0", "claims/workers/elsewhere.1"})
    fs::last_write_time(folder / file, fs::file_time_type::clock::now() - std::chrono::seconds(90));
  EXPECT_TRUE(claims.alone());
  EXPECT_EQ(claims.failure("a"), std::nullopt);
  EXPECT_TRUE(claims.take("a"));
}

TEST(Claims, TellOthersWhatFailed) {
  const TemporaryFolder folder;
  Claims two(folder / "claims", "study");
  {
    Claims one(folder / "claims", "study");
    one.take("a");
    EXPECT_EQ(two.failure("a"), std::nullopt);
    one.fail("a", "diverged");
    EXPECT_EQ(two.failure("a"), "diverged");
    EXPECT_EQ(one.failure("a"), std::nullopt) << "it knows";
  }
  EXPECT_EQ(two.failure("a"), std::nullopt) << "the next one may try again";
  EXPECT_TRUE(two.take("a"));
}

TEST(Claims, AreForOnePurpose) {
  const TemporaryFolder folder;
  const Claims one(folder / "out/claims", "this study");
  expect_error([&] { Claims(folder / "out/claims", "that study"); }, {"out", "another study", "wait"});
}

}  // namespace
}  // namespace poem
