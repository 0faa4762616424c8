// poem pack: any image source as one memory-mapped file, or as several.
#include <fmt/format.h>

#include <iostream>

#include "cli/commands.h"
#include "cli/numbers.h"
#include "core/interrupts.h"
#include "core/text.h"
#include "poem/read.h"
#include "readers/packed.h"
#include "readers/shards.h"

namespace poem {
namespace {

// Bytes: 500000, 500K, 20M, 1G or 2T, in powers of 1,024.
CLI::Validator byte_count() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const std::string units = "KMGT";
        const size_t unit = text.empty() ? units.npos : units.find(text.back());
        const auto number =
            parse_number<uint64_t>(unit == units.npos ? text : text.substr(0, text.size() - 1));
        constexpr uint64_t kMost = uint64_t{1} << 20;
        if (!number || *number == 0 || (unit != units.npos && *number > kMost))
          return fmt::format("is '{}', not a number of bytes such as 500M or 1G", text);
        text = std::to_string(*number << (unit == units.npos ? 0 : 10 * (unit + 1)));
        return "";
      },
      "");
}

struct Options {
  std::string source, out;
  ReadOptions read;
  PackOptions pack;
  bool force = false;
};

void run(const Options& options) {
  if (options.pack.shard_bytes > 0)
    check_shard_folder(options.out, options.force);
  else if (!options.pack.append)
    check_packed_output(options.out, options.force);
  catch_interrupts();
  const int64_t count = options.source == "-"
                            ? pack_stream(std::cin, options.out, options.read, options.pack)
                            : pack_images(options.source, options.out, options.read, options.pack);
  const std::string shards =
      is_shard_folder(options.out) ? fmt::format(", {} shards in all", shard_paths(options.out).size()) : "";
  fmt::print("{}: {} image{}{}{}\n", options.out, count, count == 1 ? "" : "s",
             options.pack.append ? " added" : "", shards);
}

}  // namespace

void add_pack(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("pack", "Pack images into memory-mapped files for large pools");
  command
      ->add_option("source", options->source,
                   "Folder, archive or file of images (docs/data.md), or - for a tar on standard input")
      ->required();
  command->add_option("out", options->out, "File to write, NAME.poem; with --shard-size a folder")
      ->required();
  command
      ->add_option("--size", options->read.size,
                   "Side in pixels: resize the shorter side, then crop the centre; 0 keeps the size")
      ->capture_default_str()
      ->check(whole(0, 4096))
      ->type_name("N");
  command->add_flag("--skip-bad", options->read.skip_bad, "Leave out images that cannot be decoded");
  auto* shards =
      command
          ->add_option("--shard-size", options->pack.shard_bytes,
                       "Write a folder of files with at most so many bytes of pixels each: 1G, 500M")
          ->transform(byte_count())
          ->type_name("BYTES");
  auto* append = command->add_flag("--append", options->pack.append, "Add the images to OUT, which exists");
  auto* force =
      command->add_flag("--force", options->force, "Replace OUT if it is a packed file or a folder of them");
  append->excludes(shards)->excludes(force);
  command->footer(
      "Examples:\n  poem pack imagenet64/ outliers.poem --size 64\n"
      "  poem pack 'places365/#count=10000' places.poem --size 32\n"
      "  poem pack 'shards/pool-{000..127}.tar' pool --size 64 --shard-size 1G\n"
      "  poem pack more/ pool --size 64 --append\n"
      "  tar -c photos/ | poem pack - photos.poem --size 64");
  command->callback([options] { run(*options); });
}

}  // namespace poem
