// Keeps a second process out of a folder or a file, also one of another machine if a shared file system
// passes locks on. The system frees the lock however this process ends.
//
//   const Lock lock("runs/demo");  // an Error if another process holds it
//
// What is locked in a folder is a file there, since file systems of a network lock no folders. It is removed
// in the end, and stays after a kill.
#pragma once
#include <string>

namespace poem {

class Lock {
 public:
  static constexpr const char* kFile = ".lock";  // in a folder

  explicit Lock(const std::string& path);
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  bool lock(const std::string& path);

  std::string file_;
  bool ours_;  // to be removed
  int descriptor_;
};

}  // namespace poem
