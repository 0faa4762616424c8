// poem pack: any image source as one memory-mapped file.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/numbers.h"
#include "core/interrupts.h"
#include "poem/read.h"
#include "readers/packed.h"

namespace poem {
namespace {

struct Options {
  std::string source, out;
  ReadOptions read;
  bool force = false;
};

void run(const Options& options) {
  check_packed_output(options.out, options.force);
  catch_interrupts();
  const int64_t count = pack_images(options.source, options.out, options.read);
  fmt::print("{}: {} image{}\n", options.out, count, count == 1 ? "" : "s");
}

}  // namespace

void add_pack(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("pack", "Pack images into one memory-mapped file for large pools");
  command->add_option("source", options->source, "Folder, archive or file of images (docs/data.md)")
      ->required();
  command->add_option("out", options->out, "File to write, NAME.poem")->required();
  command
      ->add_option("--size", options->read.size,
                   "Side in pixels: resize the shorter side, then crop the centre; 0 keeps the size")
      ->capture_default_str()
      ->check(whole(0, 4096))
      ->type_name("N");
  command->add_flag("--skip-bad", options->read.skip_bad, "Leave out images that cannot be decoded");
  command->add_flag("--force", options->force, "Replace OUT if it is a packed file");
  command->footer(
      "Examples:\n  poem pack imagenet64/ outliers.poem --size 64\n"
      "  poem pack 'places365/#count=10000' places.poem --size 32");
  command->callback([options] { run(*options); });
}

}  // namespace poem
