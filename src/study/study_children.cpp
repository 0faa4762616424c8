#include "study/study_children.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "core/interrupts.h"
#include "poem/error.h"

namespace poem {
namespace {

// Runs between fork and exec, so it only makes calls that are safe although the parent has threads.
[[noreturn]] void become(char* const* arguments, char* const* variables, int log, pid_t parent) {
  // The parent's handler would swallow a signal that arrives before exec.
  for (const int signal : kInterrupts) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // the parent died before the line above
  ::setpgid(0, 0);                        // out of reach of the terminal's Ctrl-C
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  if (log >= 0) {
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
  }
  ::execve(arguments[0], arguments, variables);
  ::_exit(127);
}

// For exec: ends with a null pointer.
std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// This program's environment with some variables set.
std::vector<std::string> environment_with(const std::vector<std::string>& variables) {
  std::vector<std::string> all = variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable, name = text.substr(0, text.find('=') + 1);
    if (std::none_of(variables.begin(), variables.end(),
                     [&](const std::string& given) { return given.rfind(name, 0) == 0; }))
      all.push_back(text);
  }
  return all;
}

}  // namespace

Children::~Children() {
  signal_all(SIGINT);
  for (const auto& child : ids_) ::waitpid(child.first, nullptr, 0);
}

void Children::signal_all(int signal) const {
  for (const auto& child : ids_) ::kill(child.first, signal);
}

void Children::start(size_t id, const std::vector<std::string>& command, const std::string& log,
                     const std::vector<std::string>& variables) {
  int descriptor = -1;
  if (!log.empty()) {
    descriptor = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (descriptor < 0) throw Error(log, fmt::format("cannot write: {}", std::strerror(errno)));
  }
  const std::vector<std::string> all = environment_with(variables);
  const std::vector<char*> arguments = pointers(command), environment = pointers(all);
  sigset_t interrupts, before;  // blocked until the child no longer has this program's handler
  sigemptyset(&interrupts);
  for (const int signal : kInterrupts) sigaddset(&interrupts, signal);
  ::sigprocmask(SIG_BLOCK, &interrupts, &before);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child == 0) become(arguments.data(), environment.data(), descriptor, parent);
  const int problem = errno;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (descriptor >= 0) ::close(descriptor);
  if (child < 0) throw Error(command[0], fmt::format("cannot start: {}", std::strerror(problem)));
  ids_[child] = id;
}

Children::Ended Children::wait(const std::function<void()>& meanwhile) {
  constexpr int kSecond = 50;  // rounds
  for (int round = 1;; ++round) {
    stop_if_interrupted();
    for (auto child = ids_.begin(); child != ids_.end(); ++child) {
      int status = 0;
      if (::waitpid(child->first, &status, WNOHANG) != child->first) continue;
      const Ended ended{child->second, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)};
      ids_.erase(child);
      return ended;
    }
    if (meanwhile && round % kSecond == 0) meanwhile();
    std::this_thread::sleep_for(std::chrono::milliseconds(1000 / kSecond));
  }
}

}  // namespace poem
