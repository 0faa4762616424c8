#include "core/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "poem/error.h"

namespace poem {

Lock::Lock(const std::string& folder)
    : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0) throw Error(folder, "cannot be locked", "check its permissions");
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    ::close(descriptor_);
    throw Error(folder, "is in use by another process", "wait until it ends, or stop it");
  }
}

Lock::~Lock() { ::close(descriptor_); }

}  // namespace poem
