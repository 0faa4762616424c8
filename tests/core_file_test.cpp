#include "core/file.h"

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

#include "core/lock.h"
#include "core/mapped_file.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace {
std::atomic<bool> no_locks{false};
}

// As the system's, but if asked like that of a file system without locks.
extern "C" int flock(int descriptor, int operation) noexcept {
  if (!no_locks) return static_cast<int>(::syscall(SYS_flock, descriptor, operation));
  errno = ENOLCK;
  return -1;
}

namespace poem {
namespace {

namespace fs = std::filesystem;

size_t entries(const std::string& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(ReadFile, GivesEveryByte) {
  TemporaryFolder folder;
  std::string content;
  for (int i = 0; i < 200000; ++i) content += static_cast<char>(i * 7);
  folder.put("a", content);
  EXPECT_EQ(read_file(folder / "a"), content);
  folder.put("empty", "");
  EXPECT_EQ(read_file(folder / "empty"), "");
}

TEST(ReadFile, NamesWhatCannotBeRead) {
  TemporaryFolder folder;
  expect_error([&] { read_file(folder / "none"); }, {"/none", "No such file", "check the path"});
  expect_error([&] { read_file(folder.path()); }, {folder.path(), "is a folder"});
  folder.put("a", "x");
  expect_error([&] { read_file(folder / "a/b"); }, {"a/b", "Not a directory"});
  expect_error([&] { read_file(folder / std::string(300, 'x')); }, {"File name too long"});
}

TEST(InputFile, IsNoPipe) {
  TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const std::string& path : {folder / "pipe", std::string("/dev/zero")})
    expect_error([&] { InputFile file(path); }, {path, "is a device or a pipe"});
}

TEST(AtomicFile, AppearsOnlyWithCommit) {
  TemporaryFolder folder;
  {
    AtomicFile file(folder / "a");
    file.write("hello");
    EXPECT_FALSE(fs::exists(folder / "a"));
    EXPECT_EQ(file.size(), 5u);
    file.write(" world");
    file.write_at(0, "J", 1);
    EXPECT_EQ(file.size(), 11u);
    file.commit();
    EXPECT_EQ(read_file(folder / "a"), "Jello world");
  }
  EXPECT_EQ(read_file(folder / "a"), "Jello world");
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(AtomicFile, WithoutCommitLeavesNothingAndKeepsWhatWasThere) {
  TemporaryFolder folder;
  folder.put("old", "old content");
  {
    AtomicFile fresh(folder / "fresh"), over(folder / "old");
    fresh.write("x");
    over.write("y");
  }
  EXPECT_FALSE(fs::exists(folder / "fresh"));
  EXPECT_EQ(read_file(folder / "old"), "old content");
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(AtomicFile, AFailedCommitLeavesNoTemporaryFile) {
  TemporaryFolder folder;
  expect_error(
      [&] {
        AtomicFile file(folder / "a");
        file.write("x");
        folder.put("a/inside", "a folder took the name meanwhile");
        file.commit();
      },
      {folder / "a", "cannot create"});
  EXPECT_EQ(entries(folder.path()), 1u);
  EXPECT_TRUE(fs::exists(folder / "a/inside"));
}

TEST(AtomicFile, FullDisksAreErrorsWithARemedy) {
  if (!fs::exists("/dev/full")) GTEST_SKIP();
  TemporaryFolder folder;
  fs::create_symlink("/dev/full", folder / "a.tmp");
  expect_error([&] { write_file(folder / "a", "x"); }, {folder / "a", "No space left", "free some space"});
  EXPECT_FALSE(fs::exists(folder / "a"));
}

TEST(AtomicFile, NamesWhatCannotBeWritten) {
  TemporaryFolder folder;
  folder.put("file", "x");
  expect_error([&] { write_file(folder / "none/a", "x"); }, {"none/a", "No such file"});
  expect_error([&] { write_file(folder / "file/a", "x"); }, {"file/a", "Not a directory"});
  expect_error([&] { write_file(folder.path(), "x"); }, {folder.path(), "is a folder"});
  expect_error([&] { write_file(folder / std::string(300, 'x'), "x"); }, {"File name too long"});
}

TEST(AtomicFile, HasOneWriterAtATime) {
  TemporaryFolder folder;
  const std::string path = folder / "a";
  {
    AtomicFile first(path);
    first.write("the first");
    const auto second = [&] { AtomicFile file(path, /*patience=*/0); };
    expect_error(second, {path, "is being written by another process", "wait until it ends"});
    { AtomicFile other(folder / "b", 0); }  // keeps nobody out
    first.write(" is whole");
    first.commit();
    second();  // and leaves nothing
  }
  EXPECT_EQ(read_file(path), "the first is whole");
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(AtomicFile, WhatAKillLeftIsReplaced) {
  TemporaryFolder folder;
  folder.put("a.tmp", "the beginning of something long");
  AtomicFile file(folder / "a", 0);
  file.write("x");
  file.commit();
  EXPECT_EQ(read_file(folder / "a"), "x");
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(AtomicFile, AShortWriteWaitsForTheOneBefore) {
  TemporaryFolder folder;
  std::optional<AtomicFile> first(std::in_place, folder / "a");
  first->write("first");
  std::thread second([&] { write_file(folder / "a", "second"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(fs::exists(folder / "a"));
  first->commit();
  first.reset();
  second.join();
  EXPECT_EQ(read_file(folder / "a"), "second");
  EXPECT_EQ(entries(folder.path()), 1u);
}

// A lock on a file whose writer has just renamed or removed it keeps nobody out.
TEST(AtomicFile, IsWholeWhoeverWritesIt) {
  TemporaryFolder folder;
  const std::string path = folder / "a";
  std::atomic<int> written = 0, torn = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 60; ++i) {
        try {
          AtomicFile file(path, 0);
          const std::string text(1000 + 100 * t, static_cast<char>('a' + t));
          file.write(text.substr(0, 500));
          file.write(text.substr(500));
          if (i % 3 == 0) continue;  // leaves it
          file.commit();
          ++written;
          const std::string found = read_file(path);
          torn += found.size() != 1000 + 100 * static_cast<size_t>(found[0] - 'a') ||
                  found.find_first_not_of(found[0]) != found.npos;
        } catch (const Error& error) {
          torn += std::string(error.what()).find("is being written") == std::string::npos;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(written, 0);
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(AtomicFile, NeedsNoLocks) {
  TemporaryFolder folder;
  folder.put("a.tmp", "left by a kill");
  no_locks = true;
  write_file(folder / "a", "x");
  no_locks = false;
  EXPECT_EQ(read_file(folder / "a"), "x");
}

TEST(WriteFile, ReplacesTheWholeContent) {
  TemporaryFolder folder;
  write_file(folder / "a", "a long first content");
  write_file(folder / "a", "short");
  EXPECT_EQ(read_file(folder / "a"), "short");
  write_file(folder / "a", "");
  EXPECT_EQ(read_file(folder / "a"), "");
}

TEST(MappedFile, HoldsTheBytesAsLongAsACopyLives) {
  TemporaryFolder folder;
  folder.put("a", std::string("by\0tes", 6));
  std::optional<MappedFile> copy;
  {
    const MappedFile file(folder / "a");
    copy = file;
  }
  fs::remove(folder / "a");
  ASSERT_EQ(copy->size(), 6u);
  EXPECT_EQ(std::memcmp(copy->data(), "by\0tes", 6), 0);
  const std::shared_ptr<const void> memory = copy->keep_alive();
  copy.reset();
  EXPECT_EQ(std::memcmp(memory.get(), "by\0tes", 6), 0);
}

TEST(MappedFile, NamesWhatCannotBeMapped) {
  TemporaryFolder folder;
  folder.put("empty", "");
  expect_error([&] { MappedFile file(folder / "empty"); }, {"empty", "is empty"});
  expect_error([&] { MappedFile file(folder / "none"); }, {"none", "No such file"});
  expect_error([&] { MappedFile file(folder.path()); }, {"is a folder"});
}

TEST(OutputFolder, ANewOrEmptyOneIsFine) {
  TemporaryFolder folder;
  check_output_folder(folder / "new", false, "mark");
  check_output_folder(folder.path(), false, "mark");
  EXPECT_TRUE(fs::exists(folder.path()));
}

TEST(OutputFolder, OnlyForceReplacesAMarkedOne) {
  TemporaryFolder folder;
  folder.put("run/mark", "");
  folder.put("run/sub/b", "");
  expect_error([&] { check_output_folder(folder / "run", false, "mark"); },
               {"run", "exists", "option force"});
  EXPECT_TRUE(fs::exists(folder / "run/sub/b"));
  check_output_folder(folder / "run", true, "mark");
  EXPECT_TRUE(fs::exists(folder / "run/sub/b"));  // checking touches nothing
  empty_folder(folder / "run");
  EXPECT_TRUE(fs::is_directory(folder / "run"));
  EXPECT_EQ(entries(folder / "run"), 0u);
  empty_folder(folder / "run");
  expect_error([&] { empty_folder(folder / "none"); }, {"none", "No such file"});
}

TEST(OutputFolder, NothingReplacesAnybodyElsesFolderOrFile) {
  TemporaryFolder folder;
  folder.put("photos/a", "x");
  folder.put("file", "x");
  for (const bool force : {false, true}) {
    expect_error([&] { check_output_folder(folder / "photos", force, "mark"); },
                 {"photos", "has no mark", "choose another folder"});
    expect_error([&] { check_output_folder(folder / "file", force, "mark"); }, {"file", "is a file"});
  }
  EXPECT_TRUE(fs::exists(folder / "photos/a"));
  EXPECT_TRUE(fs::exists(folder / "file"));
}

TEST(OutputFolder, OneThatCannotBeMadeIsAnErrorBeforeAnythingIsDone) {
  TemporaryFolder folder;
  folder.put("file", "x");
  expect_error([&] { check_output_folder(folder / "file/run", false, "m"); }, {"file", "is a file"});
  expect_error([&] { check_output_folder(folder / "file/deep/run", true, "m"); }, {"file", "is a file"});
  check_output_folder(folder / "new/deep/run", false, "m");
  EXPECT_FALSE(fs::exists(folder / "new"));
}

TEST(OutputFolder, NamesThatCannotBeAreErrors) {
  TemporaryFolder folder;
  folder.put("file", "x");
  expect_error([&] { check_output_folder(folder / std::string(300, 'x'), true, "m"); },
               {"File name too long"});
  expect_error([&] { make_output_folder(folder / std::string(300, 'x')); }, {"File name too long"});
  expect_error([&] { make_output_folder(folder / "file/a"); }, {"file/a", "Not a directory"});
  make_output_folder(folder / "a/b/c");
  EXPECT_TRUE(fs::is_directory(folder / "a/b/c"));
}

TEST(OutputFolder, IsFilledOrNotThere) {
  TemporaryFolder folder;
  const auto fill = [&](const std::string& content, bool force) {
    fill_output_folder(folder / "out", force, "mark", [&] {
      write_file(folder / "out/mark", content);
      if (content.empty()) throw Error("disk", "is full");
    });
  };
  expect_error([&] { fill("", false); }, {"is full"});
  EXPECT_FALSE(fs::exists(folder / "out"));
  fill("one", false);
  folder.put("out/left", "from before");
  expect_error([&] { fill("two", false); }, {"exists already"});
  EXPECT_EQ(read_file(folder / "out/mark"), "one");
  fill("two", true);
  EXPECT_EQ(read_file(folder / "out/mark"), "two");
  EXPECT_EQ(entries(folder / "out"), 1u);
  expect_error([&] { fill("", true); }, {"is full"});
  EXPECT_EQ(entries(folder / "out"), 0u);
}

TEST(OutputFolder, IsFilledByOneProcessAtATime) {
  TemporaryFolder folder;
  const auto fill = [&](const std::function<void()>& write) {
    fill_output_folder(folder / "out", true, "mark", write);
  };
  fill([&] {
    write_file(folder / "out/mark", "first");
    expect_error([&] { fill([] {}); }, {"out", "in use by another process"});
    EXPECT_EQ(read_file(folder / "out/mark"), "first");
  });
  EXPECT_EQ(entries(folder / "out"), 1u);
  fill([&] { write_file(folder / "out/mark", "second"); });
  EXPECT_EQ(read_file(folder / "out/mark"), "second");
}

}  // namespace
}  // namespace poem
