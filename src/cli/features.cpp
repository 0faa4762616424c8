// poem features: writes the features that a detector's network computes for images.
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
    throw Error(options.run, "is a detector file, which does not record its training images",
                "name a source of images as well, or give the run folder instead");
  }
  return load_id_images(options.run).train;
}

void run(const Options& options, const CommonOptions& common) {
  if (std::filesystem::path(options.out).extension() != ".npz")
    throw Error(options.out, "must end in .npz, since poem features writes an .npz file", "call it NAME.npz");
  catch_interrupts();
  OutputFiles files({options.out}, options.force);
  if (!options.source.empty()) check_source(options.source);
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
  command->add_option("source", options->source,
                      "Images (docs/data.md); default: the run's training images without the held-out ones");
  command->add_option("--out", options->out, "Features, logits, labels, names, and the last layer")
      ->required()
      ->type_name("F.npz");
  command->add_flag("--skip-bad", options->skip_bad, "Leave out images that cannot be decoded");
  command->add_flag("--force", options->force, "Replace F.npz if it exists");
  command->footer(
      "The file contains the arrays features (rows x features), logits, weight and bias of the last layer,\n"
      "labels (if the detector knows the images' classes) and names (if the images have names).\n"
      "Example: evaluate further scores of a detector.\n"
      "  poem features runs/mine --out train.npz\n"
      "  poem features runs/mine test/ --out id.npz\n"
      "  poem features runs/mine street/ --out street.npz\n"
      "  poem posthoc --train train.npz --id id.npz --ood street=street.npz --score all --out scores");
  command->callback([options, &common] { run(*options, common); });
}

}  // namespace poem
