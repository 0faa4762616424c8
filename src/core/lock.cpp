#include "core/lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "poem/error.h"

namespace poem {

namespace {

[[noreturn]] void throw_in_use(const std::string& folder) {
  throw Error(folder, "is in use by another process", "wait until it ends, or stop it");
}

}  // namespace

bool is_still(const std::string& path, int descriptor) {
  struct stat locked, named;
  return ::fstat(descriptor, &locked) == 0 && ::stat(path.c_str(), &named) == 0 &&
         locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
}

Lock::Lock(const std::string& folder) : file_(folder + "/" + kFile) {
  constexpr int kAttempts = 100;  // where stat and fstat number files differently, all of them fail
  for (int attempt = 1; !lock(folder); ++attempt) {
    ::close(descriptor_);
    if (attempt == kAttempts) throw_in_use(folder);
  }
}

// Whether the lock is one on the file of today. NFS gives an exclusive lock only on a file that is open for
// writing.
bool Lock::lock(const std::string& folder) {
  descriptor_ = ::open(file_.c_str(), O_RDWR | O_CLOEXEC | O_CREAT, 0666);
  if (descriptor_ < 0)
    throw Error(folder, fmt::format("cannot be locked: {}", std::strerror(errno)),
                "check its permissions and the free space");
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return is_still(file_, descriptor_);
  if (errno == EWOULDBLOCK) {
    ::close(descriptor_);
    throw_in_use(folder);
  }
  spdlog::warn("{}: cannot be locked ({}): make sure that no other process writes there", folder,
               std::strerror(errno));
  return true;
}

Lock::~Lock() {
  ::unlink(file_.c_str());
  ::close(descriptor_);
}

}  // namespace poem
