// A process that does its work once for each line it gets, and answers with a line: a side of a comparison
// that is a process of its own.
//
//   Stepper ours({beside("train_step"), "demo"}), spinning({beside("train_step"), "demo"}, {"GOMP_SPINCOUNT",
//   "300000"}); ours.step();
#pragma once
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace poem::bench {

std::string beside(const std::string& name);  // the path of a program that lies beside this one

class Stepper {
 public:
  // `command`: a program's path and its arguments. `variable`: a name and a value for its environment; empty:
  // none.
  explicit Stepper(const std::vector<std::string>& command,
                   const std::pair<std::string, std::string>& variable = {});
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;
  ~Stepper();

  void step();

 private:
  pid_t child_;
  int to_, from_;
};

}  // namespace poem::bench
