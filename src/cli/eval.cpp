// poem eval: a detector against test sets.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "core/file.h"
#include "core/output_files.h"
#include "core/runtime.h"
#include "detect/evaluate.h"
#include "detect/score.h"
#include "train/data.h"
#include "train/run.h"

namespace poem {
namespace {

struct Options {
  std::string run, id, score, out;
  std::vector<std::string> ood;
  bool json = false, skip_bad = false, force = false;
};

void write(const Results& results, const std::string& json, const Options& options) {
  make_output_folder(options.out);
  const std::string json_path = options.out + "/results.json", csv_path = options.out + "/results.csv";
  OutputFiles files({json_path, csv_path}, options.force);
  write_file(files.staged(csv_path), to_csv(results));
  write_file(files.staged(json_path), json);
  files.commit();
}

void run(const Options& options, const CommonOptions& common) {
  if (std::filesystem::exists(options.out)) {  // asked before the work, and again before writing
    OutputFiles({options.out + "/results.json", options.out + "/results.csv"}, options.force);
  }
  const Detector detector = Detector::load(detector_path(options.run));
  detector.network->to(pick_device(common.device));
  const std::string score = options.score.empty() ? detector.score : options.score;
  check_score(score);
  const TestData test = load_test_data(options.id, options.ood, detector.size, options.skip_bad);
  const Results results = evaluate(detector, score, test.id, test.ood);
  const std::string json = to_json_text(results);
  if (!options.out.empty()) write(results, json, options);
  fmt::print("{}", options.json ? json : to_table(results));
}

}  // namespace

void add_eval(CLI::App& app, const CommonOptions& common) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("eval", "Evaluate a detector on ID and OOD test sets");
  command->add_option("run", options->run, "Run folder, or a detector.safetensors")->required();
  command->add_option("--id", options->id, "ID test images (labelled: gives the accuracy)")
      ->required()
      ->type_name("PATH");
  command->add_option("--ood", options->ood, "OOD test images (may be repeated)")
      ->required()
      ->type_name("NAME=PATH");
  command->add_option("--score", options->score, "energy or msp (default: the detector's own)")
      ->type_name("NAME");
  command->add_option("--out", options->out, "Also write results.json and results.csv there")
      ->type_name("DIR");
  command->add_flag("--json", options->json, "Print JSON (shares of 1) instead of the table (percent)");
  command->add_flag("--skip-bad", options->skip_bad, "Leave out images that cannot be decoded");
  command->add_flag("--force", options->force, "Replace results that are there");
  command->footer(
      "Examples:\n"
      "  poem eval runs/demo/poem --id world:test --ood digits=world:digits --ood scenes=world:scenes\n"
      "  poem eval runs/cifar --id cifar-10-batches-bin/test_batch.bin --ood svhn=test_32x32.mat --json");
  command->callback([options, &common] { run(*options, common); });
}

}  // namespace poem
