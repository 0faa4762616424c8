// A process of train_step (which lies beside this program) that takes a train step when told to.
//
//   Stepper ours("ours"), spinning("demo", {"GOMP_SPINCOUNT", "300000"});
//   ours.step();
#pragma once
#include <sys/types.h>

#include <string>
#include <utility>

namespace poem::bench {

class Stepper {
 public:
  // `variable`: a name and a value for its environment; empty: none.
  explicit Stepper(const std::string& side, const std::pair<std::string, std::string>& variable = {});
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;
  ~Stepper();

  void step();

 private:
  pid_t child_;
  int to_, from_;
};

}  // namespace poem::bench
