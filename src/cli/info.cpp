// poem info: what a path holds.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/numbers.h"
#include "core/file.h"
#include "data/read.h"
#include "detect/detector.h"
#include "train/config.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

int64_t lines_of(const std::string& path) {
  if (!fs::exists(path)) return 0;
  const std::string text = read_file(path);
  return std::count(text.begin(), text.end(), '\n');
}

void show_detector(const std::string& path) {
  const Detector detector = Detector::load(path);
  int64_t parameters = 0;
  for (const auto& [name, tensor] : detector.network->parameters()) parameters += tensor.numel();
  fmt::print(
      "detector   {}\nnetwork    {}, {} parameters, {} features\ninput      {}x{} pixels\nscore      {}\n",
      path, detector.network->spec().name, parameters, detector.network->feature_count(), detector.size,
      detector.size, detector.score->name());
  fmt::print("threshold  {}\nclasses    {}\n",
             detector.threshold ? fmt::format("{}", *detector.threshold) : "none",
             fmt::join(detector.class_names, ", "));
}

void show_run(const std::string& folder) {
  const Config config = read_config(folder + "/config.yaml", {});
  fmt::print("run        {}\nepochs     {} of {}\nminer      {}, seed {}\n", folder,
             lines_of(folder + "/metrics.jsonl"), config.train.epochs, config.mining.miner, config.seed);
  const std::string detector = folder + "/detector.safetensors";
  if (fs::exists(detector)) {
    show_detector(detector);
  } else {
    fmt::print("detector   not yet: poem train --resume {}\n", folder);
  }
}

void show_images(const std::string& source, const ReadOptions& options) {
  const ImageSet images = read_images(source, options);
  fmt::print("images     {}\ncount      {}\nshape      {} channels, {}x{} pixels (height x width)\n", source,
             images.size(), images.channels(), images.height(), images.width());
  if (!images.labelled()) {
    fmt::print("labels     none\n");
    return;
  }
  const auto classes = static_cast<int64_t>(images.class_names.size());
  const at::Tensor counts = at::bincount(images.labels, {}, classes);
  fmt::print("classes    {}\n", classes);
  for (int64_t i = 0; i < classes; ++i) {
    fmt::print("{:>8}   {}\n", counts[i].item<int64_t>(), images.class_names[i]);
  }
}

}  // namespace

void add_info(CLI::App& app) {
  auto path = std::make_shared<std::string>();
  auto read = std::make_shared<ReadOptions>();
  auto* command = app.add_subcommand("info", "Tell what a run, a detector or an image source holds");
  command->add_option("path", *path, "Run folder, detector.safetensors, or anything docs/data.md lists")
      ->required();
  command->add_option("--size", read->size, "Resize images of differing sizes to this side")
      ->check(whole(0, 4096))
      ->type_name("N");
  command->add_flag("--skip-bad", read->skip_bad, "Leave out images that cannot be decoded");
  command->footer(
      "Examples:\n  poem info runs/demo/poem\n  poem info world:train\n  poem info photos/ --size 32\n"
      "  poem info 'tiny_images.bin#exclude=80mn_cifar_idxs.txt'");
  command->callback([path, read] {
    if (fs::exists(*path + "/config.yaml")) {
      show_run(*path);
    } else if (fs::path(*path).extension() == ".safetensors") {
      show_detector(*path);
    } else {
      show_images(*path, *read);
    }
  });
}

}  // namespace poem
