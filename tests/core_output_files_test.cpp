#include "core/output_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "core/file.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

TEST(OutputFiles, AppearTogetherOnCommit) {
  TemporaryFolder folder;
  const std::string a = folder / "a", b = folder / "b";
  OutputFiles out({a, "", b}, false);
  out.write(a, [](const std::string& staged) { write_file(staged, "1"); });
  out.write(b, [](const std::string& staged) { write_file(staged, "2"); });
  EXPECT_FALSE(fs::exists(a));
  out.commit();
  EXPECT_EQ(read_file(a), "1");
  EXPECT_EQ(read_file(b), "2");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 2);
}

TEST(OutputFiles, WithoutCommitNothingIsLeftAndNothingReplaced) {
  TemporaryFolder folder;
  const std::string a = folder / "a", b = folder / "b";
  write_file(a, "old");
  {
    OutputFiles out({a, b}, true);
    for (const std::string& path : {a, b})
      out.write(path, [](const std::string& staged) { write_file(staged, "new"); });
  }
  EXPECT_EQ(read_file(a), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(OutputFiles, ComplaintsAreOfThePathThatWasGiven) {
  TemporaryFolder folder;
  const std::string a = folder / "a: b";
  const OutputFiles out({a}, false);
  const auto message_of = [&](const std::function<void(const std::string&)>& fill) {
    try {
      out.write(a, fill);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message_of([](const std::string& staged) { throw Error(staged, "is full: 9", "wait"); }),
            a + ": is full: 9 (wait)");
  EXPECT_EQ(message_of([](const std::string&) { throw Error("elsewhere", "is wrong"); }),
            "elsewhere: is wrong");
  EXPECT_EQ(
      message_of([&](const std::string& staged) { write_file(staged + "/below", ""); }).find(a + ".part/"),
      0u);  // another path, though it begins alike
}

TEST(OutputFiles, WhatCannotBeWrittenIsSaidBeforeTheWork) {
  TemporaryFolder folder;
  const std::string a = folder / "a";
  write_file(a, "old");
  expect_error([&] { OutputFiles({a}, false); }, {a, "exists already", "option force"});
  EXPECT_NO_THROW(OutputFiles({a}, true));
  expect_error([&] { OutputFiles({folder / "none/b"}, false); }, {"none/b", "folder does not exist"});
  expect_error([&] { OutputFiles({folder.path()}, true); }, {folder.path(), "is a folder"});
  expect_error([&] { OutputFiles({folder / "b", folder / "./b"}, true); }, {"two outputs"});
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_error([&] { OutputFiles({folder / "pipe"}, true); }, {"pipe", "is a device or a pipe"});
}

TEST(OutputFiles, AreKeptFromAnotherWriterUntilTheyAppear) {
  TemporaryFolder folder;
  const std::string a = folder / "a", b = folder / "b";
  OutputFiles first({a, b}, true);
  first.write(a, [](const std::string& staged) { write_file(staged, "1"); });
  first.write(b, [](const std::string& staged) { write_file(staged, "2"); });
  expect_error([&] { OutputFiles({folder / "c", b}, true); }, {b, "is being written by another process"});
  first.commit();
  EXPECT_EQ(read_file(b), "2");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 2);
  EXPECT_NO_THROW(OutputFiles({b}, true));
}

}  // namespace
}  // namespace poem
