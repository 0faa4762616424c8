// poem bench: what this machine does per second, for poem plan.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/launched.h"
#include "core/file.h"
#include "plan/measure.h"
#include "poem/config.h"

namespace poem {
namespace {

struct Options {
  std::string config, out = "machine.json", disk = ".";
  std::vector<std::string> set;
  int timeout = kTimeout;
};

void run(const Options& options, at::Device device, const Team& team) {
  const Config config = read_config(options.config, options.set, "--set");
  const Machine machine = measure_machine(config, device, options.disk, team);
  if (!team.first()) return;
  const std::string text = to_json_text(machine);
  write_file(options.out, text);
  const std::string devices = team.size() > 1 ? fmt::format(" --gpus {}", team.size()) : "";
  fmt::print("{}now: poem plan {} --machine {}{}\n", text, options.config, options.out, devices);
}

}  // namespace

void add_bench(CLI::App& app, const CommonOptions& common) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("bench", "Measure the speed of this machine, for poem plan");
  command->add_option("config", options->config, "YAML file of a training: its network is measured")
      ->required();
  command->add_option("--out", options->out, "File to write")->capture_default_str()->type_name("FILE");
  command->add_option("--disk", options->disk, "Folder on the disk to measure; takes 256 MiB for a moment")
      ->capture_default_str()
      ->type_name("DIR");
  add_timeout(*command, options->timeout);
  add_set(*command, options->set);
  command->footer(
      "It trains on random pixels: the config's data is not read. All weights are trained and all of a pool\n"
      "is scored, whatever the config says: poem plan counts the rest.\n"
      "Started on several processes, it also measures the links between them.\n"
      "Examples:\n"
      "  poem bench configs/cifar10.yaml --out machine.json\n"
      "  poem launch --nproc 8 bench configs/cifar10.yaml --out machine.json");
  command->callback([options, &common] {
    in_team(common, options->timeout,
            [&](at::Device device, const Team& team) { run(*options, device, team); });
  });
}

}  // namespace poem
