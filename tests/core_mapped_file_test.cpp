#include "core/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "core/file.h"
#include "core/memory.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace poem {
namespace {

std::string bytes_of(size_t count, int step) {
  std::string bytes(count, '\0');
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(i * static_cast<size_t>(step) % 251);
  return bytes;
}

// KiB of the mapping at this address that are in this process's page table, as the kernel says.
int64_t resident(const uint8_t* address) {
  std::ifstream lines("/proc/self/smaps");
  std::ostringstream start;
  start << std::hex << reinterpret_cast<uintptr_t>(address) << "-";
  bool here = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.find('-') != line.npos && line.find(':') > line.find('-'))
      here = line.rfind(start.str(), 0) == 0;
    if (here && line.rfind("Rss:", 0) == 0) return std::stoll(line.substr(4));
  }
  return -1;
}

TEST(MappedPieces, LieOneAfterTheOther) {
  TemporaryFolder folder;
  const std::string a = bytes_of(3 * kPageBytes, 3), b = bytes_of(2 * kPageBytes + 100, 7);
  write_file(folder / "a", a);
  write_file(folder / "b", b);
  std::optional<MappedFile> file;
  file.emplace(std::vector<FilePiece>{{folder / "a", kPageBytes, kPageBytes + 5, 0},
                                      {folder / "b", 0, b.size(), 3 * kPageBytes}});
  EXPECT_EQ(file->size(), 3 * kPageBytes + b.size());
  const auto text = [&](uint64_t place, size_t bytes) {
    return std::string(reinterpret_cast<const char*>(file->data()) + place, bytes);
  };
  EXPECT_EQ(text(0, kPageBytes + 5), a.substr(kPageBytes, kPageBytes + 5));
  EXPECT_EQ(text(2 * kPageBytes, kPageBytes), std::string(kPageBytes, '\0'));  // between them
  EXPECT_EQ(text(3 * kPageBytes, b.size()), b);
  std::filesystem::remove(folder / "a");  // the mapping keeps the file
  read_ahead({{file->data(), file->data() + file->size()}});
  EXPECT_EQ(text(0, 10), a.substr(kPageBytes, 10));
}

TEST(MappedPieces, RefuseWhatIsNotThere) {
  TemporaryFolder folder;
  write_file(folder / "a", "short");
  expect_error([&] { MappedFile({{folder / "a", 0, 6, 0}}); }, {"/a", "cut short"});
  expect_error([&] { MappedFile({{folder / "b", 0, 6, 0}}); }, {"/b", "No such file"});
}

TEST(MappedPages, AreReadAheadAndLetGo) {
  TemporaryFolder folder;
  constexpr size_t kBytes = 2 << 20;
  write_file(folder / "a", bytes_of(kBytes, 5));
  const MappedFile file(folder / "a");
  const Span all{file.data(), file.data() + kBytes};
  EXPECT_EQ(resident(file.data()), 0);
  read_ahead({{file.data() + 10, file.data() + kBytes / 2}});
  EXPECT_GE(resident(file.data()), static_cast<int64_t>(kBytes / 2 / 1024));
  read_ahead({all});
  EXPECT_EQ(resident(file.data()), static_cast<int64_t>(kBytes / 1024));
  let_go(all);
  EXPECT_EQ(resident(file.data()), 0);
  EXPECT_EQ(static_cast<char>(file.data()[1000]), bytes_of(1001, 5)[1000]);
}

// The pages of a file of which mincore() says that the system has them in memory, mapped or not.
int64_t cached(const Span& span) {
  std::vector<unsigned char> pages((static_cast<uint64_t>(span.end - span.begin) + kPageBytes - 1) /
                                   kPageBytes);
  EXPECT_EQ(
      ::mincore(const_cast<uint8_t*>(span.begin), static_cast<size_t>(span.end - span.begin), pages.data()),
      0);
  return std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; });
}

void write_to_disk(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR);
  ASSERT_GE(file, 0);
  EXPECT_EQ(::fsync(file), 0);
  ::close(file);
}

// Whether the system forgets a file in this folder if it is told to: one that has no disk it cannot.
bool system_forgets(const TemporaryFolder& folder) {
  write_file(folder / "control", bytes_of(kPageBytes, 5));
  write_to_disk(folder / "control");
  const int file = ::open((folder / "control").c_str(), O_RDONLY);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
  const MappedFile mapped(folder / "control");
  return cached({mapped.data(), mapped.data() + kPageBytes}) == 0;
}

TEST(MappedPages, OfSmallFilesStayInTheSystemsCache) {
  TemporaryFolder folder;
  constexpr size_t kBytes = 8 << 20;
  write_file(folder / "a", bytes_of(kBytes, 5));
  const MappedFile file(folder / "a");
  const Span all{file.data(), file.data() + kBytes};
  read_ahead({all});
  let_go(all);
  EXPECT_EQ(resident(file.data()), 0);
  EXPECT_EQ(cached(all), static_cast<int64_t>(kBytes / kPageBytes));
}

TEST(MappedPages, OfFilesBeyondMemoryAreForgotten) {
  TemporaryFolder folder;
  constexpr size_t kStart = 100, kBytes = 9 << 20;  // not whole pages, and not whole pieces of a reader
  write_file(folder / "a", bytes_of(kBytes, 5));
  std::filesystem::resize_file(folder / "a", available_memory() / 4 * 3);  // takes no space
  write_to_disk(folder / "a");  // until then no page can be forgotten
  const bool forgets = system_forgets(folder);
  const MappedFile file(folder / "a");
  const Span all{file.data() + kStart, file.data() + kBytes};
  read_ahead({all});
  EXPECT_GE(resident(file.data()), static_cast<int64_t>(kBytes / 1024));
  EXPECT_EQ(std::string(file.data(), file.data() + kBytes), bytes_of(kBytes, 5));
  const Span inside{file.data() + kPageBytes, file.data() + kBytes - kPageBytes};
  const auto pages = static_cast<int64_t>(kBytes / kPageBytes) - 2;
  let_go(all, /*soon=*/true);
  EXPECT_EQ(resident(file.data()), 0);
  EXPECT_EQ(cached(inside), pages);
  let_go(all);
  EXPECT_EQ(cached(inside), forgets ? 0 : pages);
  EXPECT_EQ(std::string(file.data(), file.data() + kBytes), bytes_of(kBytes, 5));
}

// What is not a file would lose its content if it were let go of.
TEST(MappedPages, LeavesOtherMemoryAlone) {
  std::string memory = bytes_of(1 << 20, 5);
  const auto* begin = reinterpret_cast<const uint8_t*>(memory.data());
  read_ahead({{begin, begin + memory.size()}});
  let_go({begin, begin + memory.size()});
  EXPECT_EQ(memory, bytes_of(1 << 20, 5));
  read_ahead({});
}

TEST(MappedPages, AChangedFileIsAnError) {
  TemporaryFolder folder;
  write_file(folder / "a", bytes_of(2 * kPageBytes, 5));
  write_file(folder / "b", bytes_of(2 * kPageBytes, 5));
  const MappedFile file(folder / "a");
  const Span all{file.data(), file.data() + file.size()};
  read_ahead({all});
  write_file(folder / "a", "another file");  // under the same name; the mapped one is as it was
  read_ahead({all});
  check_mapped_files();
  const MappedFile other(folder / "b");
  ASSERT_EQ(::truncate((folder / "b").c_str(), 100), 0);
  expect_error(
      [&] {
        read_ahead({{other.data(), other.data() + other.size()}});
      },
      {"/b", "was changed while poem was reading it"});
  expect_error(check_mapped_files, {"/b", "was changed while poem was reading it"});
  read_ahead({all});
}

TEST(MappedPagesDeathTest, ALostPageNamesItsFile) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  TemporaryFolder folder;
  write_file(folder / "pool.poem", bytes_of(4 * kPageBytes, 5));
  EXPECT_EXIT(
      {
        name_lost_pages(2);
        const MappedFile file(folder / "pool.poem");
        if (::truncate((folder / "pool.poem").c_str(), 100) == 0)
          static_cast<void>(*const_cast<const volatile uint8_t*>(file.data() + 3 * kPageBytes));
      },
      ::testing::ExitedWithCode(2), "^poem: .*/pool.poem: a part of it is gone");
}

}  // namespace
}  // namespace poem
