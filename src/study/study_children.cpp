#include "study/study_children.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

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
[[noreturn]] void become(char* const* arguments, int log, pid_t parent) {
  // The parent's handler would swallow a signal that arrives before exec.
  for (const int signal : kInterrupts) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // the parent died before the line above
  ::setpgid(0, 0);                        // out of reach of the terminal's Ctrl-C
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::execv(arguments[0], arguments);
  ::_exit(127);
}

}  // namespace

Children::~Children() {
  for (const auto& child : ids_) ::kill(child.first, SIGINT);
  for (const auto& child : ids_) ::waitpid(child.first, nullptr, 0);
}

void Children::start(size_t id, const std::vector<std::string>& command, const std::string& log) {
  const int descriptor = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor < 0) throw Error(log, fmt::format("cannot write: {}", std::strerror(errno)));
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  sigset_t interrupts, before;  // blocked until the child no longer has this program's handler
  sigemptyset(&interrupts);
  for (const int signal : kInterrupts) sigaddset(&interrupts, signal);
  ::sigprocmask(SIG_BLOCK, &interrupts, &before);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child == 0) become(arguments.data(), descriptor, parent);
  const int problem = errno;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  ::close(descriptor);
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
