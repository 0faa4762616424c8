#include "core/lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "poem/error.h"

namespace poem {

namespace {

// A process that held the lock before may have replaced or removed the file, so that the lock is one on the
// old file.
bool is_still(const std::string& path, int descriptor) {
  struct stat locked, named;
  return ::fstat(descriptor, &locked) == 0 && ::stat(path.c_str(), &named) == 0 &&
         locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
}

[[noreturn]] void throw_in_use(const std::string& path) {
  throw Error(path, "is in use by another process", "wait until it ends, or stop it");
}

}  // namespace

Lock::Lock(const std::string& path) : file_(path), ours_(std::filesystem::is_directory(path)) {
  if (ours_) file_ += std::string("/") + kFile;
  constexpr int kAttempts = 100;  // where stat and fstat number files differently, all of them fail
  for (int attempt = 1; !lock(path); ++attempt) {
    ::close(descriptor_);
    if (attempt == kAttempts) throw_in_use(path);
  }
}

// Whether the lock is one on the file of today. NFS gives an exclusive lock only on a file that is open for
// writing.
bool Lock::lock(const std::string& path) {
  descriptor_ = ::open(file_.c_str(), O_RDWR | O_CLOEXEC | (ours_ ? O_CREAT : 0), 0666);
  if (descriptor_ < 0)
    throw Error(path, fmt::format("cannot be locked: {}", std::strerror(errno)),
                "check its permissions and the free space");
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return is_still(file_, descriptor_);
  if (errno == EWOULDBLOCK) {
    ::close(descriptor_);
    throw_in_use(path);
  }
  spdlog::warn("{}: cannot be locked ({}): make sure that no other process writes there", path,
               std::strerror(errno));
  return true;
}

Lock::~Lock() {
  if (ours_) ::unlink(file_.c_str());
  ::close(descriptor_);
}

}  // namespace poem
