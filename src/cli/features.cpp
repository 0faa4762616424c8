// poem features: what a detector's network makes of images, as a file.
#include <fmt/format.h>

#include <filesystem>

#include "cli/commands.h"
#include "core/interrupts.h"
#include "core/output_files.h"
#include "detect/features.h"
#include "poem/error.h"
#include "poem/read.h"
#include "poem/runtime.h"
#include "poem/training.h"

namespace poem {
namespace {

struct Options {
  std::string run, source, out;
  bool skip_bad = false, force = false;
};

ImageSet read(const Options& options, const Detector& detector) {
  if (!options.source.empty()) return read_images(options.source, {detector.size, options.skip_bad});
  if (!std::filesystem::is_directory(options.run)) {
    throw Error(options.run, "is a detector, which does not know what it was trained on",
                "name a source of images too, or the run's folder instead");
  }
  return load_id_images(options.run).train;
}

void run(const Options& options, const CommonOptions& common) {
  if (std::filesystem::path(options.out).extension() != ".npz")
    throw Error(options.out, "would hold what an .npz file holds", "call it NAME.npz");
  OutputFiles files({options.out}, options.force);
  if (!options.source.empty()) check_source(options.source);
  catch_interrupts();
  const Detector detector = Detector::load(detector_path(options.run));
  detector.network->to(pick_device(common.device));
  const ImageSet images = read(options, detector);
  std::string written;
  files.write(options.out,
              [&](const std::string& staged) { written = write_features(staged, detector, images); });
  files.commit();
  fmt::print("{}: {}\n", options.out, written);
}

}  // namespace

void add_features(CLI::App& app, const CommonOptions& common) {
  auto options = std::make_shared<Options>();
  auto* command =
      app.add_subcommand("features", "Write a detector's features of images, for posthoc and mine");
  command->add_option("run", options->run, "Run folder, or a detector.safetensors")->required();
  command->add_option(
      "source", options->source,
      "Images (docs/data.md); without it, those that the run was trained on, but for the held-out ones");
  command->add_option("--out", options->out, "Features, logits, labels, names, and the last layer")
      ->required()
      ->type_name("F.npz");
  command->add_flag("--skip-bad", options->skip_bad, "Leave out images that cannot be decoded");
  command->add_flag("--force", options->force, "Replace F.npz if it exists");
  command->footer(
      "The arrays: features (rows x features), logits, labels (where the images have classes that the\n"
      "detector knows), names (where they have any), weight and bias of the last layer.\n"
      "Example: scores that this detector was not saved with.\n"
      "  poem features runs/mine --out train.npz\n"
      "  poem features runs/mine test/ --out id.npz\n"
      "  poem features runs/mine street/ --out street.npz\n"
      "  poem posthoc --train train.npz --id id.npz --ood street=street.npz --score all --out scores");
  command->callback([options, &common] { run(*options, common); });
}

}  // namespace poem
