#include "core/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <optional>

#include "core/mapped_file.h"
#include "expect_error.h"
#include "temporary_folder.h"

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

}  // namespace
}  // namespace poem
