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

}  // namespace

Lock::Lock(const std::string& path) : file_(path), ours_(std::filesystem::is_directory(path)) {
  if (ours_) file_ += std::string("/") + kFile;
  while (!lock(path)) ::close(descriptor_);
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
    throw Error(path, "is in use by another process", "wait until it ends, or stop it");
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
