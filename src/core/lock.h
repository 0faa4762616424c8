// Keeps a second process out of a folder or a file. The system frees the lock however this process ends.
//
//   const Lock lock("runs/demo");  // an Error if another process holds it
#pragma once
#include <string>

namespace poem {

class Lock {
 public:
  explicit Lock(const std::string& path);
  ~Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int descriptor_;
};

}  // namespace poem
