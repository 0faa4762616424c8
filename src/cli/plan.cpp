// poem plan: what an epoch will take on some number of devices.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/numbers.h"
#include "core/file.h"
#include "core/terminal.h"
#include "core/text_table.h"
#include "plan/cost.h"
#include "plan/picture.h"
#include "poem/config.h"
#include "poem/error.h"
#include "study/study.h"

namespace poem {
namespace {

struct Options {
  std::string config, machine = "h200", svg;
  int64_t devices = 1, images = 50000, classes = 10, image_bytes = 0;
  bool json = false;
  std::vector<std::string> set;
};

std::string duration(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 600) return fmt::format("{:.1f} s", seconds);
  return seconds < 36000 ? fmt::format("{:.1f} min", seconds / 60) : fmt::format("{:.1f} h", seconds / 3600);
}

std::string amount(double bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1000;
  return fmt::format("{:.{}f} {}", bytes, unit > 0 && bytes < 10 ? 1 : 0, kUnits[unit]);
}

TextTable table_of(const std::vector<PhaseCost>& phases) {
  TextTable table;
  table.header = {"phase", "time", "limited by", "messages", "disk"};
  for (const PhaseCost& phase : phases) {
    const bool total = &phase == &phases.back();
    table.rows.push_back({{{phase.name},
                           {duration(phase.seconds())},
                           {total || phase.seconds() == 0 ? "" : phase.limit()},
                           {amount(phase.message_bytes)},
                           {amount(phase.disk_bytes)}},
                          total});
  }
  return table;
}

std::string json_text(const std::vector<PhaseCost>& phases, double training, double memory) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const PhaseCost& phase : phases)
    rows.push_back({{"phase", phase.name},
                    {"seconds", phase.seconds()},
                    {"limited_by", phase.limit()},
                    {"message_bytes_per_device", phase.message_bytes},
                    {"disk_bytes_per_host", phase.disk_bytes}});
  return nlohmann::ordered_json{
             {"phases", rows}, {"training_seconds", training}, {"memory_bytes_per_device", memory}}
             .dump(2) +
         "\n";
}

double mean_bytes(const Workload& work) {
  double bytes = 0;
  for (const OutlierSource& source : work.sources) bytes += source.share * source.image_bytes;
  return bytes;
}

// The number of outliers may follow from the number of images, which is only a guess unless it was given.
Workload workload(const Config& config, const Options& options) {
  try {
    return workload_of(config, *planned_network(config, options.classes), options.images);
  } catch (const Error& e) {
    if (e.where() != "mining.select" || config.mining.select > 0) throw;
    throw Error(
        e.where(),
        fmt::format("for {} ID images, the number that --images gives, {}", options.images, e.problem()),
        "say with --images how many there are, or " + e.remedy());
  }
}

void run(const Options& options) {
  if (is_study_file(options.config))
    throw Error(options.config, "is a study, not the config of one training",
                "name the config of a training");
  const Config config = read_config(options.config, options.set, "--set");
  const Machine machine = read_machine(options.machine);
  Workload work = workload(config, options);
  if (options.image_bytes > 0) {
    for (OutlierSource& source : work.sources) source.image_bytes = static_cast<double>(options.image_bytes);
  }
  const std::vector<PhaseCost> phases = epoch_costs(work, machine, options.devices);
  const double training = training_seconds(work, machine, options.devices);
  const double memory = device_memory(work, options.devices);
  if (!options.svg.empty()) write_file(options.svg, plan_picture(work, machine));
  if (options.json) {
    fmt::print("{}", json_text(phases, training, memory));
    return;
  }
  fmt::print("{}\n{} x {}; {} ID images (--images), a pool of {:.0f} images of {}\n",
             to_text(table_of(phases), terminal(STDOUT_FILENO)), options.devices, machine.name,
             options.images, work.pool, amount(mean_bytes(work)));
  fmt::print(
      "All {:.0f} epochs: {}. Memory per device and process, beside the activations of a step and outliers "
      "held in memory: {}\n",
      work.pretrain + work.epochs, duration(training), amount(memory));
  if (options.devices > config.train.batch)
    fmt::print("poem train refuses more processes than train.batch, {}: raise it.\n", config.train.batch);
  const SpeedEstimate estimate = speed_for(machine, work.multiply_adds);
  fmt::print("Constants: {}.\n", machine.note);
  if (estimate.scaled)
    fmt::print(
        "{} was not measured there: its speed is that of {}, scaled by the multiplications per image. "
        "Measure it with poem bench.\n",
        config.network.name, estimate.speed.network);
}

}  // namespace

void add_plan(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("plan", "Say what an epoch will take on one or many GPUs");
  command->add_option("config", options->config, "YAML file of a training")->required();
  command->add_option("--gpus", options->devices, "Devices that train together")
      ->check(whole(1, 1 << 20))
      ->capture_default_str()
      ->type_name("N");
  command
      ->add_option("--machine", options->machine, "File that poem bench wrote, or a built-in machine: h200")
      ->capture_default_str()
      ->type_name("FILE");
  command->add_option("--images", options->images, "ID images that are trained on")
      ->check(whole(1))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--classes", options->classes, "ID classes")
      ->check(whole(1, 1 << 20))
      ->capture_default_str()
      ->type_name("N");
  command
      ->add_option("--image-bytes", options->image_bytes,
                   "Bytes of an outlier on disk; 0: as packed outliers say, or as the network takes them")
      ->check(whole(0))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--svg", options->svg, "Also draw an epoch's time over the size of the pool")
      ->type_name("FILE");
  command->add_flag("--json", options->json, "Print JSON instead of the table");
  add_set(*command, options->set);
  command->footer(
      "Of the data only the headers of packed outliers are read. docs/scale.md has the formulas.\n"
      "Examples:\n"
      "  poem plan configs/cifar10.yaml --gpus 8\n"
      "  poem plan configs/cifar10.yaml --gpus 64 --set mining.pool=10000000 --svg plan.svg");
  command->callback([options] { run(*options); });
}

}  // namespace poem
