// poem calibrate: chooses thresholds and a temperature on images that were never trained on.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "cli/commands.h"
#include "core/interrupts.h"
#include "core/output_files.h"
#include "core/text.h"
#include "poem/config.h"
#include "poem/detector.h"
#include "poem/error.h"
#include "poem/read.h"
#include "poem/runtime.h"
#include "poem/training.h"
#include "readers/source.h"
#include "readers/world_source.h"
#include "train/run_folder.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string run, id, out;
  double tpr = 0.95;
  std::optional<double> unsure;
  bool skip_bad = false, force = false;
};

// The run that says what the detector was trained on; empty if nothing does.
std::optional<RunFolder> run_of(const std::string& run_or_file) {
  const fs::path given = run_or_file;
  const RunFolder run((fs::is_directory(given) ? given : given.parent_path() / ".").string());
  std::error_code ignored;
  const bool own = fs::is_directory(given) || fs::equivalent(given, run.detector, ignored);
  return own && run.is_run() ? std::optional(run) : std::nullopt;
}

bool contains(const fs::path& folder, const fs::path& path) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

// The test images that lie in a folder of training batches and are not read with it (readers/cifar.cpp).
bool is_beside_batches(const fs::path& file) {
  const std::string name = file.filename().string();
  return starts_with(name, "test_batch.") || name == "test.bin" || starts_with(name, "val_data");
}

// Whether images of one source can be images of the other, whatever part of its place each takes.
bool may_overlap(const Source& a, const Source& b) {
  if (is_drawn(a.place) != is_drawn(b.place)) return false;
  if (is_drawn(a.place)) return same_images(parse_world(a.place), parse_world(b.place));
  const fs::path one = fs::weakly_canonical(a.place), other = fs::weakly_canonical(b.place);
  if (one != other && (is_beside_batches(one) || is_beside_batches(other))) return false;
  return contains(one, other) || contains(other, one);
}

// The detector fits its training images better than new ones, so they say nothing about these.
void check_not_trained_on(const Options& options, const std::optional<RunFolder>& run) {
  if (!run) {
    spdlog::warn(
        "{} does not say what it was trained on, so poem could not check that the images of {} are new "
        "to it; name the run folder instead of the file to have that checked",
        options.run, options.id);
    return;
  }
  const Config config = read_config(run->config, {});
  const Source trained = parse_source(config.data.train, config.data.folder);
  if (!may_overlap(parse_source(options.id, ""), trained)) return;
  throw Error(options.id,
              fmt::format("may contain images that the run was trained on, from {}", trained.text),
              "name images that it has never seen");
}

void tell_temperature(const Detector& detector, const ImageSet& id, const CalibrationOutcome& outcome) {
  if (!outcome.error_before) {
    fmt::print("temperature  {:.4g}, not fitted: {}\n", detector.temperature,
               id.labelled() ? "the network does not classify" : "the images have no labels");
    return;
  }
  if (!outcome.best_temperature) {
    fmt::print(
        "temperature  {:.4g}, not fitted: no temperature is best for these images, as if all or none of "
        "their classes were recognised; ECE {:.2f} %\n",
        detector.temperature, 100 * *outcome.error_before);
    return;
  }
  if (!outcome.temperature_fitted) {
    spdlog::warn(
        "a temperature of {:.4g} fits the images best, but it raises their ECE from {:.2f} % to {:.2f} %",
        *outcome.best_temperature, 100 * *outcome.error_before, 100 * *outcome.error_after);
    fmt::print("temperature  {:.4g}, kept: ECE {:.2f} % on these images\n", detector.temperature,
               100 * *outcome.error_before);
    return;
  }
  fmt::print("temperature  {:.4g}: ECE {:.2f} % before, {:.2f} % after, on these images\n",
             detector.temperature, 100 * *outcome.error_before, 100 * *outcome.error_after);
}

// Names the option that is wrong.
void check(const CalibrationTarget& target) {
  try {
    check_target(target);
  } catch (const Error& error) {
    throw Error("--" + error.where(), error.problem(), error.remedy());
  }
}

void warn_of_few(const CalibrationTarget& target, int64_t images) {
  constexpr int64_t kFew = 200;  // as for a training (train/finish.cpp)
  if (images < kFew) spdlog::warn("{} images are few to set a threshold on: give {} or more", images, kFew);
  const double largest = target.unsure.value_or(target.tpr);
  if (largest < 1 && (1 - largest) * static_cast<double>(images) < 1)
    spdlog::warn("a share of {:.4g} % needs {:.0f} images or more: with {} its threshold is the lowest score",
                 100 * largest, std::ceil(1 / (1 - largest) - 1e-9), images);
}

void run(const Options& options, const CommonOptions& common) {
  catch_interrupts();
  const CalibrationTarget target{options.tpr, options.unsure};
  check(target);
  check_source(options.id);
  OutputFiles files({options.out}, options.force);
  const std::string path = detector_path(options.run);
  check_not_trained_on(options, run_of(options.run));
  Detector detector = Detector::load(path);
  detector.network->to(pick_device(common.device));
  const ImageSet id = read_images(options.id, {detector.size, options.skip_bad});
  const CalibrationOutcome outcome = calibrate(detector, id, target);
  files.write(options.out, [&](const std::string& staged) { detector.save(staged); });
  files.commit();
  warn_of_few(target, id.size());
  fmt::print("threshold    {:.6g} {}\n", *detector.threshold, to_text(*detector.calibration));
  if (detector.unsure)
    fmt::print("unsure from  {:.6g} {}\n", detector.unsure->threshold,
               to_text(Calibration{detector.unsure->tpr, id.size(), detector.calibration->source}));
  tell_temperature(detector, id, outcome);
  fmt::print("p-values     ranks among the scores of {} images\ndetector     {}\n", id.size(), options.out);
}

}  // namespace

void add_calibrate(CLI::App& app, const CommonOptions& common) {
  auto options = std::make_shared<Options>();
  auto* command =
      app.add_subcommand("calibrate", "Set a detector's thresholds on images that it has never seen");
  command->add_option("run", options->run, "Run folder, or a detector.safetensors")->required();
  command
      ->add_option("--id", options->id,
                   "Images of the known classes, never trained on (labelled: fits the temperature)")
      ->required()
      ->type_name("PATH");
  command->add_option("--tpr", options->tpr, "Share of these images that the threshold keeps")
      ->capture_default_str()
      ->type_name("SHARE");
  command
      ->add_option("--unsure", options->unsure,
                   "A larger share: the verdict is unsure between the two thresholds")
      ->type_name("SHARE");
  command->add_option("--out", options->out, "The new detector")->required()->type_name("F.safetensors");
  command->add_flag("--skip-bad", options->skip_bad, "Leave out images that cannot be decoded");
  command->add_flag("--force", options->force, "Replace F.safetensors if it exists");
  command->footer(
      "The new detector has a threshold, perhaps a second one, a temperature that makes its probabilities "
      "agree\n"
      "with its accuracy, and the scores of the images. p-values are ranks among these scores: p = 0.01 "
      "means\n"
      "that 1 % of the images of the known classes have such a low score.\n"
      "Examples:\n"
      "  poem calibrate runs/mine --id fresh/ --tpr 0.99 --out detector99.safetensors\n"
      "  poem calibrate runs/mine --id fresh/ --tpr 0.9 --unsure 0.99 --out careful.safetensors");
  command->callback([options, &common] { run(*options, common); });
}

}  // namespace poem
