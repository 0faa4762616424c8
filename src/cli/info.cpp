// poem info: describes a run, a folder of runs, a detector or a source of images.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/numbers.h"
#include "core/file.h"
#include "core/text.h"
#include "poem/config.h"
#include "poem/detector.h"
#include "poem/error.h"
#include "poem/read.h"
#include "study/study.h"
#include "train/run_folder.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

int64_t lines_of(const std::string& path) {
  if (!fs::exists(path)) return 0;
  const std::string text = read_file(path);
  return std::count(text.begin(), text.end(), '\n');
}

std::string threshold_text(const Detector& detector) {
  const std::string value = fmt::format("{:.6g}", *detector.threshold);
  return detector.calibration ? value + ", " + to_text(*detector.calibration) : value;
}

// What `poem calibrate` may have added.
std::string calibrated_text(const Detector& detector) {
  std::string text;
  if (detector.unsure && detector.calibration) {
    Calibration unsure = *detector.calibration;
    unsure.tpr = detector.unsure->tpr;
    text += fmt::format("unsure     from {:.6g}, {}\n", detector.unsure->threshold, to_text(unsure));
  }
  if (detector.temperature != 1)
    text += fmt::format("softmax    at temperature {:.4g}\n", detector.temperature);
  return text;
}

// Returns the whole text before anything is printed, so that a damaged file gives an error alone.
std::string about_detector(const std::string& path) {
  const Detector detector = Detector::load(path);
  int64_t parameters = 0;
  for (const auto& [name, tensor] : detector.network->parameters()) parameters += tensor.numel();
  return fmt::format(
      "detector   {}\nnetwork    {}, {} parameters, {} features\ninput      {}x{} pixels\nscore      {}\n"
      "threshold  {}\n{}classes    {}\n",
      path, detector.network->spec().name, parameters, detector.network->feature_count(), detector.size,
      detector.size, detector.score->name(), detector.threshold ? threshold_text(detector) : "none",
      calibrated_text(detector), fmt::join(detector.class_names, ", "));
}

std::string about_run(const RunFolder& run) {
  const Config config = read_config(run.config, {});
  return fmt::format("run        {}\nepochs     {} of {}\nminer      {}, seed {}\n", run.root,
                     lines_of(run.metrics), config.train.epochs, config.mining.miner, config.seed) +
         (run.finished()
              ? about_detector(run.detector)
              : fmt::format("detector   not yet: poem train --resume {}\n", shell_quoted(run.root)));
}

// Folders of runs, in `folder` or one level further down, by their names below it.
std::vector<std::string> runs_in(const std::string& folder) {
  std::vector<std::string> runs;
  std::error_code problem, ignored;  // a folder that cannot be listed counts as one without runs
  auto entry =
      fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied, problem);
  for (; !problem && entry != fs::recursive_directory_iterator(); entry.increment(problem)) {
    if (!entry->is_directory(ignored)) continue;
    const RunFolder inner(entry->path().string());
    const auto has = [&](const std::string& path) { return fs::exists(path, ignored); };
    const bool run = has(inner.config) && (has(inner.checkpoint) || has(inner.detector));
    if (run) runs.push_back(entry->path().lexically_relative(folder).string());
    if (run || entry.depth() == 1) entry.disable_recursion_pending();
  }
  std::sort(runs.begin(), runs.end());
  return runs;
}

std::string about_runs(const std::string& folder, const std::vector<std::string>& runs) {
  std::string list;
  int64_t finished = 0;
  for (const std::string& name : runs) {
    const RunFolder run((fs::path(folder) / name).string());
    if (run.finished()) {
      ++finished;
      list += fmt::format("finished   {}\n", name);
    } else {
      list += fmt::format("unfinished {} (epochs done: {})\n", name, lines_of(run.metrics));
    }
  }
  return fmt::format("runs       {}\ncount      {}, finished: {}\n{}", folder, runs.size(), finished, list);
}

std::string about_images(const std::string& source, const ReadOptions& options) {
  const ImageSet images = outline_images(source, options);
  std::string text =
      fmt::format("images     {}\ncount      {}\nshape      {} channels, {}x{} pixels (height x width)\n",
                  source, images.size(), images.channels(), images.height(), images.width());
  if (!images.labelled()) return text + "labels     none\n";
  const auto classes = static_cast<int64_t>(images.class_names.size());
  const at::Tensor counts = at::bincount(images.labels, {}, classes);
  text += fmt::format("classes    {}\n", classes);
  for (int64_t i = 0; i < classes; ++i) {
    text += fmt::format("{:>8}   {}\n", counts[i].item<int64_t>(), images.class_names[i]);
  }
  return text;
}

std::string about(const std::string& path, const ReadOptions& options) {
  if (const RunFolder run(path); run.is_run()) return about_run(run);
  if (fs::exists(path + "/study.yaml")) {
    throw Error(path, "is the folder of a study",
                "read its table.md or report.html, or name a folder in its runs/");
  }
  if (fs::path(path).extension() == ".yaml" && fs::is_regular_file(path)) {
    const char* command = is_study_file(path) ? "study " : "train ";
    throw Error(path, "is a file of settings",
                std::string("run it with: poem ") + command + shell_quoted(path));
  }
  if (fs::path(path).extension() == ".safetensors") return about_detector(path);
  if (const auto runs = runs_in(path); !runs.empty()) return about_runs(path, runs);
  return about_images(path, options);
}

}  // namespace

void add_info(CLI::App& app) {
  auto path = std::make_shared<std::string>();
  auto read = std::make_shared<ReadOptions>();
  auto* command =
      app.add_subcommand("info", "Describe a run, a folder of runs, a detector or a source of images");
  command
      ->add_option("path", *path,
                   "Run, folder of runs, detector.safetensors, or a source of images (docs/data.md)")
      ->required();
  command->add_option("--size", read->size, "Resize images of differing sizes to this side")
      ->check(whole(0, 4096))
      ->type_name("N");
  command->add_flag("--skip-bad", read->skip_bad, "Leave out images that cannot be decoded");
  command->footer(
      "Examples:\n  poem info runs/first\n  poem info runs\n  poem info world:train\n  poem info "
      "photos/ --size 32\n"
      "  poem info 'tiny_images.bin#exclude=80mn_cifar_idxs.txt'");
  command->callback([path, read] { fmt::print("{}", about(*path, *read)); });
}

}  // namespace poem
