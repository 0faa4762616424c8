#include "core/lock.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "core/file.h"
#include "expect_error.h"
#include "temporary_folder.h"

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

TEST(Lock, OfAFileLeavesItAsItIs) {
  TemporaryFolder folder;
  folder.put("a", "text");
  {
    const Lock lock(folder / "a");
    expect_error([&] { Lock(folder / "a"); }, {"/a", "in use by another process"});
    folder.put("b", "another");
    fs::rename(folder / "b", folder / "a");  // what is locked is the file that was there
    { const Lock other(folder / "a"); }
  }
  EXPECT_EQ(read_file(folder / "a"), "another");
  expect_error([&] { Lock(folder / "c"); }, {"/c", "cannot be locked", "No such file"});
}

}  // namespace
}  // namespace poem
