#include "core/output_files.h"

#include <gtest/gtest.h>

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
  write_file(out.staged(a), "1");
  write_file(out.staged(b), "2");
  EXPECT_FALSE(fs::exists(a));
  out.commit();
  EXPECT_EQ(read_file(a), "1");
  EXPECT_EQ(read_file(b), "2");
  EXPECT_FALSE(fs::exists(out.staged(a)));
}

TEST(OutputFiles, WithoutCommitNothingIsLeftAndNothingReplaced) {
  TemporaryFolder folder;
  const std::string a = folder / "a", b = folder / "b";
  write_file(a, "old");
  {
    OutputFiles out({a, b}, true);
    write_file(out.staged(a), "new");
    write_file(out.staged(b), "new");
  }
  EXPECT_EQ(read_file(a), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(OutputFiles, WhatCannotBeWrittenIsSaidBeforeTheWork) {
  TemporaryFolder folder;
  const std::string a = folder / "a";
  write_file(a, "old");
  expect_error([&] { OutputFiles({a}, false); }, {a, "exists already", "--force"});
  EXPECT_NO_THROW(OutputFiles({a}, true));
  expect_error([&] { OutputFiles({folder / "none/b"}, false); }, {"none/b", "folder does not exist"});
  expect_error([&] { OutputFiles({folder.path()}, true); }, {folder.path(), "is a folder"});
  expect_error([&] { OutputFiles({folder / "b", folder / "./b"}, true); }, {"two outputs"});
}

}  // namespace
}  // namespace poem
