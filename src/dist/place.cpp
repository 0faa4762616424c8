#include "dist/place.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <sstream>

#include "poem/error.h"

namespace poem {
namespace {

constexpr int kMost = std::numeric_limits<int>::max();

class Variables {
 public:
  explicit Variables(const std::function<const char*(const char*)>& variable) : variable_(variable) {}

  bool has(const char* name) const { return variable_(name) != nullptr; }
  std::string text(const char* name, const std::string& otherwise) const {
    return has(name) ? variable_(name) : otherwise;
  }

  int number(const char* name, int least, int most) const {
    const std::string text = this->text(name, "");
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
      throw Error(name, fmt::format("is '{}'", text),
                  most == kMost ? fmt::format("give a whole number of at least {}", least)
                                : fmt::format("give a whole number from {} to {}", least, most));
    }
    return value;
  }
  int number(const char* name, int least, int most, int otherwise) const {
    return has(name) ? number(name, least, most) : otherwise;
  }

 private:
  const std::function<const char*(const char*)>& variable_;
};

// How a starter calls what it says.
struct Starter {
  const char *rank, *size, *local_rank, *local_size, *job;
};
constexpr Starter kTorchrun{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"};
constexpr Starter kOpenMpi{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                           "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"};
constexpr Starter kSlurm{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE",
                         "SLURM_JOB_ID"};

std::optional<Starter> starter_of(const Variables& variables) {
  for (const Starter& starter : {kTorchrun, kOpenMpi, kSlurm}) {
    if (variables.has(starter.rank) && variables.has(starter.size)) return starter;
  }
  return std::nullopt;
}

// Two jobs on one machine need different ports. 29500 … 30499, by the job's name.
int port_of(const std::string& job) {
  constexpr int kFirst = 29500, kPorts = 1000;
  unsigned sum = 0;
  for (const char c : job) sum = sum * 31 + static_cast<unsigned char>(c);
  return kFirst + static_cast<int>(sum % kPorts);
}

// The first name of a list such as "node[03-05,9],other".
std::string first_host(const std::string& list) {
  const auto bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  return list.substr(0, bracket) + list.substr(bracket + 1, std::strcspn(list.c_str() + bracket + 1, ",-]"));
}

// Slurm writes "2(x3),1" for two processes on each of three machines and one on the fourth. The others write
// the number for this machine.
int local_size(const std::string& list, int machine) {
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    const int size = std::max(1, std::atoi(part.c_str()));
    const auto times = part.find("(x");
    machine -= times == std::string::npos ? 1 : std::max(1, std::atoi(part.c_str() + times + 2));
    if (machine < 0) return size;
  }
  return 1;
}

}  // namespace

Place place_from(const std::function<const char*(const char*)>& variable) {
  const Variables variables(variable);
  const std::optional<Starter> starter = starter_of(variables);
  Place place;
  if (!starter) return place;
  place.size = variables.number(starter->size, 1, kMost);
  place.rank = variables.number(starter->rank, 0, place.size - 1);
  place.local_rank = variables.number(starter->local_rank, 0, place.size - 1, 0);
  const bool slurm = starter->job == kSlurm.job;
  place.local_size = local_size(variables.text(starter->local_size, "1"),
                                slurm ? variables.number("SLURM_NODEID", 0, kMost, 0) : 0);
  if (slurm && variables.has("SLURM_STEP_NODELIST"))
    place.address = first_host(variables.text("SLURM_STEP_NODELIST", ""));
  place.address = variables.text("MASTER_ADDR", place.address);
  if (variables.has(starter->job)) place.port = port_of(variables.text(starter->job, ""));
  place.port = variables.number("MASTER_PORT", 1, 65535, place.port);
  place.agent = variables.text("TORCHELASTIC_USE_AGENT_STORE", "") == "True";
  place.attempt = variables.number("TORCHELASTIC_RESTART_COUNT", 0, kMost, 0);
  return place;
}

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace poem
