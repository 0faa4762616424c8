// poem world: the embedded world as folders of image files, to try what one does with photos of one's own.
#include <fmt/format.h>

#include <filesystem>

#include "cli/commands.h"
#include "cli/numbers.h"
#include "core/file.h"
#include "core/interrupts.h"
#include "poem/error.h"
#include "readers/write_folder.h"
#include "world/world.h"

namespace poem {
namespace {

struct Options {
  std::string folder;
  int64_t train = 2000, test = 400, outliers = 4000, ood = 200;
  uint64_t seed = 0;
};

void check_free(const std::string& folder) {
  namespace fs = std::filesystem;
  if (!fs::exists(folder) || (fs::is_directory(folder) && fs::is_empty(folder))) return;
  throw Error(folder, "exists already and is never replaced", "choose another folder");
}

// Where a set goes below DIR, and how many images of it.
std::pair<std::string, int64_t> place(const std::string& set, const Options& options) {
  if (set == "train") return {set, options.train};
  if (set == "test") return {set, options.test};
  if (set == "outliers") return {set, options.outliers};
  return {"ood/" + set, options.ood};
}

std::string write_set(const std::string& set, const Options& options) {
  const auto [name, count] = place(set, options);
  const std::string folder = options.folder + "/" + name;
  const ImageSet images = draw_world(set, count, options.seed);
  write_folder(images, folder);
  const size_t classes = images.class_names.size();
  return fmt::format("{:<{}}{:>6} images{}\n", folder, options.folder.size() + 14, count,
                     classes > 0 ? fmt::format(" in {} sub-folders", classes) : "");
}

void run(const Options& options) {
  check_free(options.folder);
  catch_interrupts();
  std::string summary;
  fill_output_folder(options.folder, /*force=*/false, /*mark=*/"", [&] {
    for (const std::string& set : world_sets()) {
      if (set != "procedural") summary += write_set(set, options);  // no stand-in for anyone's photos
    }
  });
  fmt::print("{}", summary);
}

void add_count(CLI::App& command, const char* name, int64_t& count, const char* help) {
  command.add_option(name, count, help)->check(whole(1, 1000000))->capture_default_str()->type_name("N");
}

}  // namespace

void add_world(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("world", "Write the embedded world as folders of PNG images");
  command->add_option("dir", options->folder, "Folder to make: train/CLASS, test/CLASS, outliers, ood/SET")
      ->required();
  add_count(*command, "--train", options->train, "Training images of all eight classes together");
  add_count(*command, "--test", options->test, "Test images of all eight classes together");
  add_count(*command, "--outliers", options->outliers, "Outliers of all 24 families together");
  add_count(*command, "--ood", options->ood, "Images of each of the six OOD test sets");
  command->add_option("--seed", options->seed, "Decides every image")
      ->check(whole(0))
      ->capture_default_str()
      ->type_name("S");
  command->footer(
      "File N.png of a set is image N of world:SET (docs/world.md). docs/quickstart.md trains on them.\n"
      "Examples:\n  poem world photos\n  poem world small --train 80 --test 40 --outliers 160 --ood 20");
  command->callback([options] { run(*options); });
}

}  // namespace poem
