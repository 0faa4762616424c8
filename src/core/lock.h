// Keeps a second process out of a folder, also one of another machine if a shared file system passes locks
// on. The system frees the lock however this process ends.
//
//   const Lock lock("runs/demo");  // an Error if another process holds it
//
// What is locked is a file there, since file systems of a network lock no folders. It is removed in the end,
// and stays after a kill. An AtomicFile (core/file.h) locks itself.
#pragma once
#include <string>

namespace poem {

class Lock {
 public:
  static constexpr const char* kFile = ".lock";

  explicit Lock(const std::string& folder);
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  bool lock(const std::string& folder);

  std::string file_;
  int descriptor_;
};

// Whether the file that is open is the one of this name. Whoever has just locked it asks, because the holder
// before may have renamed or removed it: then the lock is one on the old file.
bool is_still(const std::string& path, int descriptor);

}  // namespace poem
