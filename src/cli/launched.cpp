#include "cli/launched.h"

#include <fmt/format.h>
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

Place settle(const CommonOptions& common) {
  const Place place = place_from(std::getenv);
  if (place.size == 1) return place;
  if (const std::vector<std::string> gpus = visible_gpus(); !gpus.empty())
    ::putenv(::strdup(gpu_variable(gpus, static_cast<size_t>(place.local_rank)).c_str()));
  if (common.threads == 0) set_up_runtime(std::max(1, cores() / place.local_size));
  if (place.rank > 0) {
    spdlog::set_level(spdlog::level::err);
    show_progress(false);
  }
  return place;
}

}  // namespace

void in_team(const CommonOptions& common, int timeout,
             const std::function<void(at::Device, const Team&)>& work) {
  const Place place = settle(common);
  const at::Device device = pick_device(common.device);
  catch_interrupts();
  const Team team = join(place, device, std::chrono::seconds(timeout));
  try {
    work(device, team);
  } catch (const Error& e) {
    if (!team.says(e.what())) throw SaidElsewhere();
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
  const char *faults = std::getenv(kFaults), *rank = std::getenv("RANK");
  if (faults == nullptr || rank == nullptr) return false;
  const std::string line = fmt::format("{} {}\n", rank, message);
  return ::write(std::atoi(faults), line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

void print_fault(const std::string& message) {
  fmt::print(stderr, "{} {}\n", styled("poem:", Style::kRed, terminal(STDERR_FILENO)), message);
}

}  // namespace poem
