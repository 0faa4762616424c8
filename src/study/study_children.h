// Programs that run side by side, each with a log file of its own, or with the output of this one.
//
//   Children children;
//   children.start(7, {"/usr/bin/poem", "train", …}, "7.log");
//   while (children.running() > 0) { const auto [id, code] = children.wait(); … }
//
// Ctrl-C reaches only this program: the destructor passes it on to the children that still run and waits for
// them. The children end with this program, however it ends.
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
    int code;  // the exit code, or 128 + the signal that ended it, as in a shell
  };

  Children() = default;
  ~Children();
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  // Output is appended to `log`; without one it goes where this program's goes. `variables` ("NAME=VALUE")
  // are added to the environment.
  void start(size_t id, const std::vector<std::string>& command, const std::string& log,
             const std::vector<std::string>& variables = {});
  void signal_all(int signal) const;
  size_t running() const { return ids_.size(); }
  // Waits until any child ends and calls `meanwhile` about once per second. Throws Interrupted on Ctrl-C.
  Ended wait(const std::function<void()>& meanwhile = {});

 private:
  std::map<pid_t, size_t> ids_;
};

}  // namespace poem
