#include "core/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "poem/error.h"

namespace poem {

namespace {

// A process that held the lock before may have replaced the file, so that the lock is one on the old file.
bool is_still(const std::string& path, int descriptor) {
  struct stat locked, named;
  return ::fstat(descriptor, &locked) == 0 && ::stat(path.c_str(), &named) == 0 &&
         locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
}

}  // namespace

Lock::Lock(const std::string& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0) throw Error(path, "cannot be locked", "check its permissions");
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 || !is_still(path, descriptor_)) {
    ::close(descriptor_);
    throw Error(path, "is in use by another process", "wait until it ends, or stop it");
  }
}

Lock::~Lock() { ::close(descriptor_); }

}  // namespace poem
