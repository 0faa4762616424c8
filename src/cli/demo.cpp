// poem demo: the study of configs/study/recipe-demo.yaml, which compares POEM with random outliers and with
// none on the embedded world.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/commands.h"
#include "cli/numbers.h"
#include "core/runtime.h"
#include "poem/config.h"
#include "poem/error.h"
#include "study/study.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string out = "runs/demo";
  size_t seeds = 3;
  std::vector<std::string> set;
  bool force = false;
};

// Beside the build folder, or installed with the program.
std::string find_study() {
  const std::string name = "configs/study/recipe-demo.yaml";
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path();
  for (const char* place : {"..", "../share/poem"}) {
    const fs::path path = (program / place / name).lexically_normal();
    if (fs::exists(path)) return path.string();
  }
  throw Error(name, "cannot be found", "run poem from its build folder, or install it with make install");
}

void run(const Options& options, const CommonOptions& common) {
  Study study = read_study(find_study());
  read_config(study.base, options.set, "--set");  // a mistake is named by the option
  for (const std::string& assignment : options.set) {
    if (assignment.rfind("seed=", 0) == 0)
      throw Error("--set " + assignment, "the demo has seeds of its own", "use option seeds");
  }
  study.set.insert(study.set.end(), options.set.begin(), options.set.end());
  study.seeds.resize(options.seeds);
  const auto networks = make_plan(study, {}).networks.size();
  const auto jobs = std::min(networks, static_cast<size_t>(cores()));
  carry_out(study, options.out, jobs, options.force, common);
}

}  // namespace

void add_demo(CLI::App& app, const CommonOptions& common) {
  auto options = std::make_shared<Options>();
  auto* command =
      app.add_subcommand("demo", "Compare POEM, random outliers and no outliers on the embedded world");
  command->add_option("--out", options->out, "Folder of the comparison; finished parts in it are kept")
      ->capture_default_str()
      ->type_name("DIR");
  command
      ->add_option("--seeds", options->seeds,
                   "Train each method this often; with more than one seed the table shows their spread")
      ->check(whole(1, 3))
      ->capture_default_str()
      ->type_name("N");
  add_set(*command, options->set);
  command->add_flag("--force", options->force, "Delete the runs of an earlier comparison in DIR first");
  command->footer("Examples:\n  poem demo\n  poem demo --seeds 1");
  command->callback([options, &common] { run(*options, common); });
}

}  // namespace poem
