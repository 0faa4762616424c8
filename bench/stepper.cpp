#include "stepper.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace poem::bench {

std::string beside(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").replace_filename(name).string();
}

Stepper::Stepper(const std::vector<std::string>& command,
                 const std::pair<std::string, std::string>& variable) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  child_ = fork();
  if (child_ == 0) {
    dup2(to[0], STDIN_FILENO);
    dup2(from[1], STDOUT_FILENO);
    if (!variable.first.empty()) setenv(variable.first.c_str(), variable.second.c_str(), 1);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  to_ = to[1];
  from_ = from[0];
  step();  // the first one builds kernels and grows the heap
}

Stepper::~Stepper() {
  close(to_);
  close(from_);
  waitpid(child_, nullptr, 0);
}

void Stepper::step() {
  if (write(to_, "\n", 1) != 1) throw std::runtime_error("a side of the comparison has ended");
  for (char c = 0; c != '\n';)
    if (read(from_, &c, 1) != 1) throw std::runtime_error("a side of the comparison has ended");
}

}  // namespace poem::bench
