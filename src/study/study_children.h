// Programs that run side by side, each with a log file of its own.
//
//   Children children;
//   children.start(7, {"/usr/bin/poem", "train", …}, "7.log");
//   while (children.running() > 0) { const auto [id, code] = children.wait(); … }
//
// Ctrl-C is for this program alone: the destructor passes it on to those that still run and waits for them.
// However this program ends, they end with it.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace poem {

class Children {
 public:
  struct Ended {
    size_t id;
    int code;  // 128 + the signal where one ended it, as shells have it
  };

  Children() = default;
  ~Children();
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  void start(size_t id, const std::vector<std::string>& command, const std::string& log);
  size_t running() const { return ids_.size(); }
  // Waits for any of them and calls `meanwhile` about once a second. Throws Interrupted on Ctrl-C.
  Ended wait(const std::function<void()>& meanwhile = {});

 private:
  std::map<pid_t, size_t> ids_;
};

}  // namespace poem
