#include "cli/launched.h"

#include <fmt/format.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "cli/numbers.h"
#include "core/gpus.h"
#include "core/interrupts.h"
#include "core/progress.h"
#include "core/runtime.h"
#include "core/terminal.h"
#include "poem/error.h"
#include "poem/runtime.h"

namespace poem {
namespace {

Place settle() {
  const Place place = place_from(std::getenv);
  if (place.size == 1) return place;
  if (const std::vector<std::string> gpus = visible_gpus(); !gpus.empty())
    ::putenv(::strdup(gpu_variable(gpus, static_cast<size_t>(place.local_rank)).c_str()));
  if (place.rank > 0) {
    spdlog::set_level(spdlog::level::err);
    show_progress(false);
  }
  return place;
}

// The cores of this machine that the process may run on, one digit for each.
std::string own_cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return "";
  std::string digits;
  for (int core = 0; core < CPU_SETSIZE; ++core) digits += CPU_ISSET(core, &set) ? '1' : '0';
  return digits.substr(0, digits.find_last_of('1') + 1);
}

// Ranks that may run on the same cores share them. Slurm and mpirun can also give each rank cores of its own.
int share_of_cores(const Team& team) {
  const std::string own = host_name() + " " + own_cores();
  const std::vector<std::string> all = team.texts("cores", own);
  return std::max(1, cores() / static_cast<int>(std::count(all.begin(), all.end(), own)));
}

// poem launch prints what its processes tell it, each message once.
bool launched() { return std::getenv(kFaults) != nullptr && std::getenv("RANK") != nullptr; }

}  // namespace

void in_team(const CommonOptions& common, int timeout,
             const std::function<void(at::Device, const Team&)>& work) {
  const Place place = settle();
  const at::Device device = pick_device(common.device);
  catch_interrupts(/*answer=*/place.rank == 0);
  const Team team = join(place, device, std::chrono::seconds(timeout));
  try {
    if (team.size() > 1) {
      const int share = share_of_cores(team);  // all ranks ask, whether they need it or not
      if (common.threads == 0) set_up_runtime(share);
    }
    work(device, team);
  } catch (const Error& e) {
    if (!launched() && !team.says(e.what())) throw SaidElsewhere();
    throw;
  }
}

void add_timeout(CLI::App& command, int& seconds) {
  command
      .add_option("--timeout", seconds,
                  "With several processes: how long one waits for another before all end")
      ->check(whole(1, 1000000))
      ->capture_default_str()
      ->type_name("SECONDS");
}

bool tell_launcher(const std::string& message) {
  if (!launched()) return false;
  const std::string line = fmt::format("{} {}\n", std::getenv("RANK"), message);
  return ::write(std::atoi(std::getenv(kFaults)), line.data(), line.size()) ==
         static_cast<ssize_t>(line.size());
}

void print_fault(const std::string& message) {
  fmt::print(stderr, "{} {}\n", styled("poem:", Style::kRed, terminal(STDERR_FILENO)), message);
}

}  // namespace poem
