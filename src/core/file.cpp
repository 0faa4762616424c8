#include "core/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

#include "core/lock.h"
#include "poem/error.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

std::string remedy_for(int code) {
  switch (code) {
    case ENOENT:
    case ENOTDIR:
      return "check the path";
    case EACCES:
    case EPERM:
      return "change its permissions or choose another place";
    case EFBIG:
    case ENOSPC:
    case EDQUOT:
      return "free some space or choose another disk";
    case EROFS:
      return "choose a place that can be written";
    default:
      return "";
  }
}

// What is there of a folder's path must be folders, the last of them one that may be written into.
void check_place(const std::string& path) {
  fs::path place = fs::absolute(path);
  std::error_code code;
  while (!fs::exists(place, code) && place.has_relative_path()) place = place.parent_path();
  if (!fs::is_directory(place, code))
    throw Error(place.string(), "is a file, a folder is needed", "choose another name");
  if (::access(place.c_str(), W_OK | X_OK) != 0) fail_with(path, "write into", errno);
}

// An open descriptor that closes itself.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

uint64_t size_of(const std::string& path, int descriptor) {
  struct stat info;
  if (::fstat(descriptor, &info) != 0) fail_with(path, "read", errno);
  return static_cast<uint64_t>(info.st_size);
}

// A pipe cannot be read in pieces, and opening one may wait for ever.
const std::string& not_a_pipe(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
    throw Error(path, "is a device or a pipe", "name a file");
  return path;
}

// A rename is on disk only when the folder is synced. Some file systems cannot sync folders; that is ignored.
void sync_folder_of(const std::string& path) {
  const std::string folder = fs::absolute(path).parent_path().string();
  const Descriptor handle{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (handle.number >= 0 && ::fsync(handle.number) != 0 && errno != EINVAL && errno != EROFS) {
    fail_with(path, "write", errno);
  }
}

// But for a lock, which the process itself may hold or another one have left.
bool is_empty(const std::string& folder, std::error_code& code) {
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code))
    if (entry->path().filename() != Lock::kFile) return false;
  return true;
}

}  // namespace

void fail_with(const std::string& path, const std::string& action, int code) {
  throw Error(path, fmt::format("cannot {}: {}", action, std::strerror(code)), remedy_for(code));
}

int open_to_read(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_with(path, "open", errno);
  struct stat info;
  if (::fstat(descriptor, &info) == 0 && S_ISDIR(info.st_mode)) {
    ::close(descriptor);
    throw Error(path, "is a folder", "name a file");
  }
  return descriptor;
}

std::string read_file(const std::string& path) {
  const Descriptor file{open_to_read(path)};
  std::string content;
  struct stat info;
  if (::fstat(file.number, &info) == 0 && S_ISREG(info.st_mode))  // a string that grows is held twice
    content.reserve(static_cast<size_t>(info.st_size));
  char block[1 << 16];
  for (;;) {
    const ssize_t got = ::read(file.number, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_with(path, "read", errno);
    if (got == 0) return content;
    content.append(block, static_cast<size_t>(got));
  }
}

InputFile::InputFile(const std::string& path) : path_(path), descriptor_(open_to_read(not_a_pipe(path))) {
  try {
    size_ = size_of(path, descriptor_);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read_at(uint64_t offset, void* to, size_t bytes) const {
  auto* next = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_, next, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_with(path_, "read", errno);
    if (got == 0) throw Error(path_, "ends before its last part", "write or download the file again");
    next += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
}

AtomicFile::AtomicFile(const std::string& path, double patience) : path_(path), temporary_(path + ".tmp") {
  using Clock = std::chrono::steady_clock;
  std::error_code ignored;  // open() will fail for the same reason and report it
  if (fs::is_directory(path, ignored)) throw Error(path, "is a folder", "name a file");
  const auto end = Clock::now() + std::chrono::duration<double>(patience);
  while (!lock()) {
    if (Clock::now() >= end)
      throw Error(path, "is being written by another process", "wait until it ends, or choose another name");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  // Only now: before, another one might have been writing. A device cannot be cut.
  if (::ftruncate(descriptor_, 0) != 0 && errno != EINVAL) {
    const int code = errno;
    ::unlink(temporary_.c_str());
    pause();
    fail_with(path_, "create", code);
  }
}

// The file is removed while it is locked: later the name may be another writer's.
AtomicFile::~AtomicFile() {
  if (!committed_) ::unlink(temporary_.c_str());
  pause();
}

// A lock counts if the file still has its name, which the writer before may have taken from it.
bool AtomicFile::lock() {
  constexpr int kAttempts = 100;  // where stat and fstat number files differently, all of them fail
  for (int attempt = 1;; ++attempt) {
    open(O_CREAT);
    int code;
    while ((code = ::flock(descriptor_, LOCK_EX | LOCK_NB)) != 0 && errno == EINTR) {
    }
    if (code != 0 && errno == EWOULDBLOCK) {
      pause();
      return false;
    }
    if (code != 0 || attempt == kAttempts || is_still(temporary_, descriptor_)) return true;
    pause();
  }
}

void AtomicFile::open(int flags) {
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666);
  if (descriptor_ < 0) fail("create");
}

void AtomicFile::pause() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

void AtomicFile::fail(const char* action) const { fail_with(path_, action, errno); }

void AtomicFile::write(const void* data, size_t bytes) {
  write_at(size_, data, bytes);
  size_ += bytes;
}

void AtomicFile::write_at(uint64_t offset, const void* data, size_t bytes) {
  if (descriptor_ < 0) open(0);
  const auto* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = ::pwrite(descriptor_, next, bytes, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("write");
    next += done;
    offset += static_cast<uint64_t>(done);
    bytes -= static_cast<size_t>(done);
  }
}

void AtomicFile::commit() {
  if (descriptor_ < 0) open(0);
  if (::fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) fail("write");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("create");
  committed_ = true;
  pause();
  sync_folder_of(path_);
}

void write_file(const std::string& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

void check_output_folder(const std::string& path, bool force, const std::string& mark) {
  std::error_code code;
  const bool exists = fs::exists(path, code);
  if (code) fail_with(path, "look at", code.value());
  check_place(path);
  if (!exists) return;
  const bool empty = is_empty(path, code);
  if (code) fail_with(path, "look into", code.value());
  if (empty) return;
  if (!fs::exists(path + "/" + mark, code)) {
    throw Error(path, fmt::format("exists and has no {}, so it is never replaced", mark),
                "choose another folder");
  }
  if (!force) throw Error(path, "exists already", "choose another folder, or replace it with option force");
}

void make_output_folder(const std::string& path) {
  std::error_code code;
  fs::create_directories(path, code);
  if (code) fail_with(path, "create", code.value());
  if (::access(path.c_str(), W_OK) != 0) fail_with(path, "write into", errno);
}

void empty_folder(const std::string& path) {
  std::error_code code;
  for (auto entry = fs::directory_iterator(path, code); !code && entry != fs::directory_iterator();
       entry.increment(code)) {
    if (entry->path().filename() != Lock::kFile) fs::remove_all(entry->path(), code);
    if (code) break;
  }
  if (code) fail_with(path, "empty", code.value());
}

void fill_output_folder(const std::string& path, bool force, const std::string& mark,
                        const std::function<void()>& write) {
  check_output_folder(path, force, mark);
  const bool existed = fs::exists(path);
  make_output_folder(path);
  std::optional<Lock> lock(path);
  check_output_folder(path, force, mark);  // again: another process may have filled it meanwhile
  empty_folder(path);
  try {
    write();
  } catch (...) {
    empty_folder(path);
    lock.reset();
    std::error_code ignored;  // another process may have come
    if (!existed) fs::remove(path, ignored);
    throw;
  }
}

}  // namespace poem
