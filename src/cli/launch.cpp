// poem launch: starts several processes of poem on this machine, which work together.
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>
#include <utility>

#include "cli/commands.h"
#include "cli/launched.h"
#include "cli/numbers.h"
#include "core/interrupts.h"
#include "core/runtime.h"
#include "core/text.h"
#include "poem/error.h"
#include "study/study_children.h"

namespace poem {
namespace {

// A port that nobody listens on now.
int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool found = ::bind(socket, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  ::close(socket);
  if (!found) throw Error("launch", "there is no free port on this machine", "give one with --port");
  return ntohs(address.sin_port);
}

// Whether the option is among the arguments, as "--name value" or "--name=value".
bool has_option(const std::vector<std::string>& arguments, const std::string& name) {
  return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& argument) {
    return argument == name || starts_with(argument, name + "=");
  });
}

std::vector<std::string> command_of(const CommonOptions& common, size_t processes,
                                    const std::vector<std::string>& arguments) {
  const int threads =
      common.threads > 0 ? common.threads : std::max(1, cores() / static_cast<int>(processes));
  std::vector<std::string> command = {std::filesystem::read_symlink("/proc/self/exe").string()};
  if (!has_option(arguments, "--threads"))
    command.insert(command.end(), {"--threads", std::to_string(threads)});
  if (common.quiet) command.push_back("--quiet");
  if (!has_option(arguments, "--device")) command.insert(command.end(), {"--device", common.device});
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

// What made ranks fail, as they tell it in a file without a name, which is in memory and never full. A fault
// that all have in common is printed once; if there are several, each with its ranks.
class Faults {
 public:
  Faults() {
    if (file_ < 0 || ::fcntl(file_, F_SETFL, O_APPEND) != 0)
      throw Error("launch", fmt::format("cannot make a file in memory: {}", std::strerror(errno)));
  }
  ~Faults() {
    print();
    ::close(file_);
  }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  std::string variable() const { return fmt::format("{}={}", kFaults, file_); }

  // Once all processes have ended. Whether there were any that were not printed before.
  bool print() {
    const auto faults = read();
    for (const auto& [message, ranks] : faults) {
      const std::string who = faults.size() == 1 ? ""
                                                 : fmt::format("rank{} {}: ", ranks.size() > 1 ? "s" : "",
                                                               fmt::join(ranks, ", "));
      print_fault(who + message);
    }
    return !faults.empty();
  }

 private:
  // The ranks of every message.
  std::vector<std::pair<std::string, std::set<int>>> read() {
    std::string text;
    char part[4096];
    for (ssize_t size; (size = ::pread(file_, part, sizeof part, read_)) > 0; read_ += size)
      text.append(part, static_cast<size_t>(size));
    std::vector<std::pair<std::string, std::set<int>>> faults;
    std::istringstream lines(text);
    std::string message;
    for (int rank; lines >> rank && std::getline(lines.ignore(), message);) {
      auto known =
          std::find_if(faults.begin(), faults.end(), [&](const auto& f) { return f.first == message; });
      if (known == faults.end()) known = faults.insert(known, {message, {}});
      known->second.insert(rank);
    }
    return faults;
  }

  const int file_ = ::memfd_create("faults", 0);  // the processes inherit it
  off_t read_ = 0;                                // so many bytes
};

// Whether a process with this exit code was asked to end: it ended by itself, having saved its work.
bool was_asked_to_end(int code) {
  return code == 128 + SIGINT || code == 128 + SIGTERM || code == 128 + SIGHUP;
}

// Ends all processes soon after the first that failed, and returns that one, or an exit code of 0. After
// Ctrl-C they end by themselves, and rank 0 may take its time to save.
Children::Ended watch(Children& children) {
  constexpr int kSeconds = 15;  // time for the others to notice by themselves
  Children::Ended first{0, 0};
  int seconds = 0;
  while (children.running() > 0) {
    const Children::Ended ended = children.wait([&] {
      if (first.code != 0 && !was_asked_to_end(first.code) && ++seconds == kSeconds)
        children.signal_all(SIGKILL);
    });
    if (first.code == 0) first = ended;
  }
  return first;
}

void launch(size_t processes, int port, const CommonOptions& common,
            const std::vector<std::string>& arguments) {
  if (arguments.empty() || (arguments[0] != "train" && arguments[0] != "bench")) {
    throw Error("launch", arguments.empty() ? "needs a command" : "cannot start '" + arguments[0] + "'",
                "poem launch --nproc 2 train CONFIG; only train and bench work on several processes");
  }
  catch_interrupts(/*answer=*/false);  // rank 0 does
  const std::vector<std::string> command = command_of(common, processes, arguments);
  const int meeting = port > 0 ? port : free_port();
  Faults faults;  // outlives the children
  Children children;
  for (size_t rank = 0; rank < processes; ++rank) {
    children.start(rank, command, "",
                   {fmt::format("RANK={}", rank), fmt::format("WORLD_SIZE={}", processes),
                    fmt::format("LOCAL_RANK={}", rank), fmt::format("LOCAL_WORLD_SIZE={}", processes),
                    "MASTER_ADDR=127.0.0.1", fmt::format("MASTER_PORT={}", meeting),
                    // poem says what goes wrong; c10d need not.
                    "GLOG_minloglevel=3", "TORCH_CPP_LOG_LEVEL=FATAL", faults.variable()});
  }
  const Children::Ended first = watch(children);
  const bool said = faults.print();
  if (first.code > 128 && !was_asked_to_end(first.code) && !said)
    print_fault(fmt::format(
        "rank {}: was ended by signal {} (see the system's log, then continue from the checkpoint, or start "
        "again if there is none)",
        first.id, first.code - 128));
  if (first.code != 0) throw Ended{first.code};
}

}  // namespace

void add_launch(CLI::App& app, const CommonOptions& common) {
  struct Options {
    size_t processes = 2;
    int port = 0;
  };
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("launch", "Train, or measure, on several processes of this machine");
  command->add_option("--nproc", options->processes, "Number of processes")
      ->check(whole(1, 1024))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--port", options->port, "Where they meet (default: a free port)")
      ->check(whole(1, 65535))
      ->type_name("P");
  command->fallthrough(false)->prefix_command();  // what follows belongs to the processes
  command->footer(
      "What follows the options is the command: train or bench. Each process gets its share of the cores.\n"
      "Examples:\n"
      "  poem launch --nproc 2 train configs/demo.yaml --out runs/two\n"
      "  poem launch --nproc 4 train --resume runs/two\n"
      "  poem launch --nproc 2 bench configs/demo.yaml --out machine.json");
  command->callback([options, command, &common] {
    launch(options->processes, options->port, common, command->remaining());
  });
}

}  // namespace poem
