// What it costs to be several processes: epochs of two processes with one thread each beside those of one
// process with two threads, with the same batches. In turn, as poem itself times them.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "compare.h"

namespace poem::bench {
namespace {

namespace fs = std::filesystem;

struct Runs {
  Runs() {
    fs::create_directory(folder);
    std::ofstream(folder / "config.yaml") << R"(
data: {train: "world:train:1000", outliers: "world:outliers:3000", validation: 0.01}
network: {name: wideresnet, depth: 10, width: 1}
mining: {pool: 3000}
train: {epochs: 5, learning_rate: 0.01}
)";
  }
  ~Runs() { fs::remove_all(folder); }
  Runs(const Runs&) = delete;
  Runs& operator=(const Runs&) = delete;

  // Adds the seconds of the epochs that have all phases: there is no posterior before the first, and nothing
  // is queued after the last.
  void time(const std::string& options, std::vector<double>& seconds) const {
    const fs::path program = fs::read_symlink("/proc/self/exe").parent_path() / "../poem",
                   run = folder / "run";
    const std::string command =
        fmt::format("{} --quiet {} train {} --force --out {} >/dev/null 2>&1", program.string(), options,
                    (folder / "config.yaml").string(), run.string());
    if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
    std::vector<double> epochs;
    std::ifstream lines(run / "metrics.jsonl");
    for (std::string line; std::getline(lines, line);) {
      double sum = 0;
      const auto epoch = nlohmann::json::parse(line);
      for (const auto& phase : epoch.at("seconds")) sum += phase.get<double>();
      epochs.push_back(sum);
    }
    seconds.insert(seconds.end(), epochs.begin() + 1, epochs.end() - 1);
  }

  const fs::path folder = fs::temp_directory_path() / fmt::format("poem_team_{}", ::getpid());
};

}  // namespace

POEM_BENCH(team) {
  const Runs runs;
  std::vector<double> two, one;
  for (int round = 0; round < 3; ++round) {
    runs.time("--threads 1 launch --nproc 2", two);
    runs.time("--threads 2", one);
  }
  hold("an epoch: 2 processes with 1 thread each / 1 with 2 threads", median(two), median(one), 1 / 0.9);
}

}  // namespace poem::bench
