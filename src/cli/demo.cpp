// poem demo: trains POEM, random outliers and no outliers on the embedded world, and compares them.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <filesystem>

#include "cli/commands.h"
#include "core/file.h"
#include "core/interrupts.h"
#include "core/text_table.h"
#include "poem/error.h"
#include "poem/evaluate.h"
#include "poem/runtime.h"
#include "poem/training.h"
#include "report/comparison.h"
#include "report/run_report.h"
#include "train/checkpoint.h"
#include "train/data.h"
#include "train/run_checks.h"
#include "train/run_folder.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string config, out = "runs/demo";
  std::vector<std::string> set;
  bool force = false;
};

// The only settings in which the three trainings differ.
struct Method {
  const char* folder;
  std::vector<std::string> set;
  std::vector<std::pair<const char*, const char*>> rows;  // (title, score) in the table
};

const std::vector<Method> kMethods = {{"none",
                                       {"mining.miner=none", "objective.name=cross_entropy"},
                                       {{"no outliers, MSP", "msp"}, {"no outliers, energy", "energy"}}},
                                      {"random", {"mining.miner=random"}, {{"random outliers", "energy"}}},
                                      {"poem", {"mining.miner=thompson"}, {{"POEM", "energy"}}}};

// configs/demo.yaml beside the build folder, or installed with the program.
std::string find_config() {
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path();
  for (const char* place : {"../configs/demo.yaml", "../share/poem/configs/demo.yaml"}) {
    if (fs::exists(program / place)) return (program / place).lexically_normal().string();
  }
  throw Error("configs/demo.yaml", "cannot be found", "give a config with --config");
}

struct Plan {
  Config config;
  std::string folder;
  bool resumes;  // a run with the same config exists
};

Plan make_plan(const Method& method, const Options& options, const std::string& config_path) {
  std::vector<std::string> set = options.set;
  set.insert(set.end(), method.set.begin(), method.set.end());
  const Config config = read_config(config_path, set, "--set");
  const std::string folder = options.out + "/" + method.folder, there = RunFolder(folder).config;
  const bool resumes =
      !options.force && fs::exists(there) && config_text(read_config(there, {})) == config_text(config);
  return {config, folder, resumes};
}

// Finds the mistakes of all trainings before the first begins. The last one, POEM's, reads all images that
// the others read.
std::vector<Plan> make_plans(const Options& options, const std::string& config_path, at::Device device) {
  std::vector<Plan> plans;
  for (const Method& method : kMethods) plans.push_back(make_plan(method, options, config_path));
  bool finished = true;
  for (const Plan& plan : plans) {
    if (!plan.resumes) check_run_folder(plan.folder, options.force);
    check_startable(anchored(plan.config), device);
    finished = finished && plan.resumes && RunFolder(plan.folder).finished();
  }
  if (!finished) rehearse_run(plans.back().config, device);
  return plans;
}

void train_method(const Plan& plan, const Options& options, at::Device device) {
  const auto& [config, folder, resumes] = plan;
  spdlog::info("\n{}: mining.miner {}, objective {}", folder, config.mining.miner, config.objective.name);
  const RunOutcome outcome =
      resumes ? resume_run(folder, device) : start_run(config, folder, options.force, device);
  write_run_report(folder);
  if (!outcome.finished) {
    spdlog::warn("interrupted; continue with the same command");
    throw Interrupted();
  }
}

TextTable::Row table_row(const char* title, const Results& r) {
  std::vector<double> shares = {r.mean.fpr95, r.mean.auroc, r.mean.aupr_in, r.mean.aupr_out,
                                r.id_accuracy.value_or(0)};
  for (const SetResult& set : r.sets) shares.push_back(set.metrics.fpr95);
  TextTable::Row row{{{title}}};
  for (const double share : shares) row.entries.push_back({fmt::format("{:.2f}", 100 * share)});
  return row;
}

void run(const Options& options, const CommonOptions& common) {
  const at::Device device = pick_device(common.device);
  catch_interrupts();
  const std::string config_path = options.config.empty() ? find_config() : options.config;
  const Config config = read_config(config_path, options.set, "--set");
  if (config.data.test.empty())
    throw Error(config_path, "data.test is empty", "name the ID test images to compare on");
  const std::vector<Plan> plans = make_plans(options, config_path, device);
  const TestData test = load_test_data(config.data.test, config.data.ood, read_options(config.data));
  for (const Plan& plan : plans) train_method(plan, options, device);

  TextTable table{{"in percent", "FPR95", "AUROC", "AUPR-in", "AUPR-out", "ID acc"}, 1, {}};
  for (const auto& [name, images] : test.ood) table.header.push_back(name);
  for (const Method& method : kMethods) {
    const Detector detector = Detector::load(RunFolder(options.out + "/" + method.folder).detector);
    detector.network->to(device);
    for (const auto& [title, score] : method.rows) {
      table.rows.push_back(table_row(title, evaluate(detector, score, test)));
    }
  }
  fmt::print(
      "\n{}The last columns: FPR95 of each OOD set; the others are means over them. {} ID test images "
      "against {}\n"
      "of each OOD set; one seed. Run folders: {}/; reports: {}/report.html and one in each run folder\n",
      to_text(table, terminal(STDOUT_FILENO)), test.id.size(), test.ood.front().images.size(), options.out,
      options.out);
  std::vector<RunData> runs;
  for (const Method& method : kMethods) runs.push_back(read_run(options.out + "/" + method.folder));
  write_report(report_path(options.out), comparison(runs), false);
}

}  // namespace

void add_demo(CLI::App& app, const CommonOptions& common) {
  auto options = std::make_shared<Options>();
  auto* command =
      app.add_subcommand("demo", "Train POEM, random outliers and no outliers on the embedded world");
  command->add_option("--out", options->out, "Folder for the run folders")
      ->capture_default_str()
      ->type_name("DIR");
  command->add_option("--config", options->config, "What to train (default: configs/demo.yaml)")
      ->type_name("FILE");
  add_overrides(*command, options->set);
  command->add_flag("--force", options->force, "Replace run folders of another config");
  command->footer("Examples:\n  poem demo\n  poem demo --seed 1 --out runs/demo-1");
  command->callback([options, &common] { run(*options, common); });
}

}  // namespace poem
