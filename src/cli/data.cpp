// poem data: the data sets that poem knows by name.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "catalogue/fetch.h"
#include "catalogue/manifest.h"
#include "catalogue/verify.h"
#include "cli/commands.h"
#include "core/interrupts.h"
#include "poem/error.h"
#include "readers/packed.h"
#include "readers/shards.h"

namespace poem {
namespace {

struct Options {
  std::string manifest, name, out = ".";
  std::vector<std::string> paths, sources;

  Manifest sets() const { return manifest.empty() ? known_sets() : read_manifest(manifest); }
};

std::string size_text(const KnownFile& file) {
  return file.size_known() ? fmt::format("{}", file.most) : "unknown";
}

void list_sets(const Manifest& manifest) {
  fmt::print("{:<14}{:>9}  {:>13}  {:<9} {}\n", "name", "images", "bytes", "checksum", "what");
  for (const KnownSet& set : manifest) {
    int64_t bytes = 0;
    bool sizes = true, checksums = true;
    for (const KnownFile& file : set.downloads) {
      sizes = sizes && file.size_known();
      checksums = checksums && !file.checksum.empty();
      bytes += sizes ? file.most : 0;
    }
    fmt::print("{:<14}{:>9}  {:>13}  {:<9} {}{}\n", set.name, set.images,
               sizes ? fmt::to_string(bytes) : "unknown", checksums ? "known" : "unknown", set.title,
               set.withdrawn.empty() ? "" : " (withdrawn)");
  }
  fmt::print(
      "poem data list NAME prints a set's sources and checksums, and how the authors of POEM use it.\n");
}

void show_set(const KnownSet& set) {
  fmt::print("{}\nimages     {}\nuse        {}\n", set.title, set.images, set.use);
  if (!set.withdrawn.empty()) fmt::print("withdrawn  {}\n", set.withdrawn);
  for (const KnownFile& file : set.downloads) {
    fmt::print("file       {}\n  bytes    {}\n  checksum {}\n", file.name, size_text(file),
               file.checksum.empty() ? "unknown" : file.checksum);
    for (const std::string& url : file.sources) fmt::print("  source   {}\n", url);
  }
  for (const KnownFile& file : set.unpacked) {
    fmt::print("unpacked   {}, {} bytes, {}\n", file.name, size_text(file),
               file.checksum.empty() ? "checksum unknown" : file.checksum);
  }
  if (!set.folders.empty()) fmt::print("unpacked   {}/\n", fmt::join(set.folders, "/ or "));
}

void list(const Options& options) {
  const Manifest manifest = options.sets();
  if (options.name.empty()) {
    list_sets(manifest);
  } else {
    show_set(find_set(manifest, options.name));
  }
}

void print_verdict(const std::string& name, const char* verdict, const std::string& place,
                   const std::string& detail) {
  fmt::print("{:<14} {:<10} {}: {}\n", name, verdict, place, detail);
}

// The known data sets in a folder.
void verify_folder(const std::string& folder, const Manifest& manifest) {
  const auto holdings = find_holdings(folder, manifest);
  if (holdings.empty())
    throw Error(folder, "contains none of the known data sets",
                "poem data list prints the known ones; for your own images use poem data check");
  int64_t broken = 0;
  for (const Holding& holding : holdings) {
    print_verdict(holding.set, holding.whole ? "complete" : "INCOMPLETE", holding.place, holding.detail);
    broken += !holding.whole;
  }
  if (broken > 0) {
    throw Error(folder, fmt::format("{} of {} are incomplete", broken, holdings.size()),
                "poem data fetch NAME downloads a set again, or the rest of it");
  }
}

// One packed file; whether it is complete.
bool verify_file(const std::string& path) {
  std::string damage;
  PackedCheck check;
  try {
    check = check_packed(path);
    damage = check.verdict();
  } catch (const Error& error) {  // of the header
    damage = error.problem();
  }
  if (!damage.empty())
    print_verdict("packed", "DAMAGED", path, damage);
  else if (check.has_checksums)
    print_verdict("packed", "complete", path,
                  fmt::format("{} images, {} block{}, checksums correct", check.count, check.blocks,
                              check.blocks == 1 ? "" : "s"));
  else
    print_verdict("packed", "complete", path,
                  fmt::format("{} images, no checksums (pack it again to add them)", check.count));
  return damage.empty();
}

void verify_packed(const std::string& source) {
  int64_t missed = 0;
  const std::vector<std::string> paths = shard_paths(source, [&](const Error& error) {
    print_verdict("packed", "DAMAGED", error.where(), error.problem());
    ++missed;
  });
  const auto broken =
      missed + std::count_if(paths.begin(), paths.end(), [](const auto& path) { return !verify_file(path); });
  if (broken > 0)
    throw Error(
        source,
        fmt::format("{} of {} files are damaged", broken, missed + static_cast<int64_t>(paths.size())),
        "copy them again, or pack the source again");
}

// All of the paths are checked before an Error ends the command.
void verify(const Options& options) {
  catch_interrupts();
  std::optional<Error> first;
  for (const std::string& path : options.paths) {
    try {
      if (is_packed_source(path))
        verify_packed(path);
      else
        verify_folder(path, options.sets());
    } catch (const Error& error) {
      if (!first) first = error;
    }
  }
  if (first) throw *first;
}

void fetch(const Options& options) {
  catch_interrupts();
  const Manifest manifest = options.sets();
  const KnownSet& set = find_set(manifest, options.name);
  if (!set.withdrawn.empty() && options.sources.empty()) {
    throw Error(set.name, "cannot be fetched: " + set.withdrawn, "use another set, for instance imagenet-64");
  }
  for (const std::string& source : options.sources) {
    if (source.find("://") == std::string::npos) {
      throw Error("--source", "is '" + source + "', not a URL", "write https://… or file:///…");
    }
    if (set.downloads.size() > 1 && source.back() != '/') {
      throw Error(source, fmt::format("is one file, but {} has {}", set.name, set.downloads.size()),
                  "name the folder with the files, with a / at the end");
    }
  }
  for (KnownFile file : set.downloads) {
    if (!options.sources.empty()) file.sources = options.sources;
    for (std::string& url : file.sources) {
      if (url.back() == '/') url += file.name;
    }
    fetch_file(file, options.out);
    fmt::print("{}/{}\n", options.out, file.name);
  }
}

void add_list(CLI::App& data, const std::shared_ptr<Options>& options) {
  auto* command = data.add_subcommand("list", "List the known data sets, or describe one of them");
  command->add_option("name", options->name, "Describe this data set");
  command->footer("Examples:\n  poem data list\n  poem data list svhn");
  command->callback([options] { list(*options); });
}

void add_verify(CLI::App& data, const std::shared_ptr<Options>& options) {
  auto* command =
      data.add_subcommand("verify", "Check the data sets in a folder, or the checksums of packed files");
  command
      ->add_option("paths", options->paths, "Folder to search for known data sets, or packed files or shards")
      ->required();
  command->footer(
      "Examples:\n  poem data verify datasets/\n  poem data verify outliers.poem\n"
      "  poem data verify pool/            # a folder of shards");
  command->callback([options] { verify(*options); });
}

void add_fetch(CLI::App& data, const std::shared_ptr<Options>& options) {
  auto* command = data.add_subcommand("fetch", "Download a data set, or the rest of it");
  command->add_option("name", options->name, "Name of the data set (poem data list)")->required();
  command->add_option("--out", options->out, "Folder to put it in")->capture_default_str()->type_name("DIR");
  command
      ->add_option("--source", options->sources,
                   "Download from here instead (may be repeated); a URL that ends in / is a folder")
      ->type_name("URL")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->footer(
      "Examples:\n  poem data fetch cifar-10 --out datasets\n"
      "  poem data fetch dtd --out datasets --source https://mirror.example/dtd/");
  command->callback([options] { fetch(*options); });
}

}  // namespace

void add_data(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* data = app.add_subcommand(
      "data", "List, verify and download the data sets of the paper; check images for duplicates");
  data->add_option("--manifest", options->manifest,
                   "Use the data sets of this file (see src/catalogue/manifest.yaml)")
      ->type_name("FILE");
  data->require_subcommand(1);
  data->fallthrough();
  add_list(*data, options);
  add_verify(*data, options);
  add_fetch(*data, options);
  add_data_check(*data);
  data->footer(
      "Examples:\n  poem data list\n  poem data list svhn\n  poem data verify datasets/\n"
      "  poem data fetch cifar-10 --out datasets\n  poem data check my-images.yaml");
}

}  // namespace poem
