#include "core/lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

#include "core/file.h"
#include "expect_error.h"
#include "poem/error.h"
#include "temporary_folder.h"

namespace {
std::atomic<bool> numbers_differ{false};
}

// As the system's, but if asked like that of a file system whose stat and fstat number the same file
// differently.
extern "C" int stat(const char* path, struct stat* status) noexcept {
  const int code = ::fstatat(AT_FDCWD, path, status, 0);
  if (numbers_differ) ++status->st_ino;
  return code;
}

namespace poem {
namespace {

namespace fs = std::filesystem;

TEST(Lock, KeepsAFolderToItself) {
  TemporaryFolder folder;
  std::optional<Lock> lock(folder / ".");
  expect_error([&] { Lock(folder / "."); }, {"in use by another process", "wait until it ends"});
  lock.reset();
  EXPECT_TRUE(fs::is_empty(folder / ".")) << "no file stays";
  lock.emplace(folder / ".");
}

// As a kill leaves it.
TEST(Lock, IsTakenWhereAnOldFileLies) {
  TemporaryFolder folder;
  folder.put(".lock", "");
  check_output_folder(folder / ".", /*force=*/false, "mark");  // still counts as empty
  { const Lock lock(folder / "."); }
  EXPECT_TRUE(fs::is_empty(folder / "."));
}

TEST(Lock, StaysWhileAFolderIsEmptied) {
  TemporaryFolder folder;
  folder.put("file", "text");
  const Lock lock(folder / ".");
  empty_folder(folder / ".");
  EXPECT_FALSE(fs::exists(folder / "file"));
  expect_error([&] { Lock(folder / "."); }, {"in use by another process"});
}

TEST(Lock, IsOneOnTheFileOfToday) {
  TemporaryFolder folder;
  const Lock lock(folder / ".");
  fs::rename(folder / ".lock", folder / "old");  // what is locked is the file that was there
  { const Lock other(folder / "."); }
  expect_error([&] { Lock(folder / "c"); }, {"/c", "cannot be locked", "No such file"});
}

// A lock on a file that its holder has just removed is not one on the folder, and does not keep anyone out.
TEST(Lock, HasOneHolderAtATime) {
  TemporaryFolder folder;
  std::atomic<int> holders = 0, most = 0, held = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        try {
          const Lock lock(folder / ".");
          most = std::max<int>(most, ++holders);
          ++held;
          --holders;
        } catch (const Error&) {  // another one has it
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  EXPECT_GT(held, 0);
  EXPECT_TRUE(fs::is_empty(folder / "."));
}

TEST(Lock, GivesUpWhereAFileIsNeverTheSame) {
  TemporaryFolder folder;
  numbers_differ = true;
  expect_error([&] { Lock(folder / "."); }, {"in use by another process"});
  write_file(folder / "a", "written all the same");
  numbers_differ = false;
  EXPECT_EQ(read_file(folder / "a"), "written all the same");
  { const Lock lock(folder / "."); }
}

}  // namespace
}  // namespace poem
