// poem export: writes a detector as an ONNX model, or as a page that runs in a browser.
#include <fmt/format.h>

#include <filesystem>

#include "cli/commands.h"
#include "core/file.h"
#include "core/interrupts.h"
#include "core/output_files.h"
#include "core/text.h"
#include "export/onnx.h"
#include "export/web_page.h"
#include "poem/detector.h"
#include "poem/error.h"
#include "poem/training.h"

namespace poem {
namespace {

constexpr const char* kWebMark = "detector.onnx";  // marks a folder that `poem export` wrote

struct Options {
  std::string run, onnx, web, runtime = "node_modules/onnxruntime-web/dist";
  bool force = false;
};

bool inside(const std::string& file, const std::string& folder) {
  if (file.empty()) return false;
  const auto path = std::filesystem::absolute(file).lexically_normal().lexically_relative(
      (std::filesystem::absolute(folder) / "").lexically_normal());
  return *path.begin() != "..";
}

std::string model_of(const Detector& detector, const std::string& path) {
  try {
    return onnx_model(detector);
  } catch (const Error& error) {
    throw error.within(path);
  }
}

void run(const Options& options) {
  catch_interrupts();
  if (options.onnx.empty() && options.web.empty())
    throw Error("--onnx", "is missing", "say where to write the model, or where to write a page with --web");
  if (!options.web.empty() && inside(options.onnx, options.web))
    throw Error(options.onnx, "lies in the folder of --web, which is replaced as a whole",
                "write it elsewhere; --web writes the model too");
  OutputFiles files({options.onnx}, options.force);
  if (!options.web.empty()) check_output_folder(options.web, options.force, kWebMark);
  const std::string path = detector_path(options.run);
  const Detector detector = Detector::load(path);
  stop_if_interrupted();
  const std::string model = model_of(detector, path);
  stop_if_interrupted();
  std::string page;
  if (!options.web.empty()) page = web_page(detector, model, read_web_runtime(options.runtime));
  if (!options.onnx.empty()) {
    files.write(options.onnx, [&](const std::string& staged) { write_file(staged, model); });
    files.commit();
    fmt::print("{}: {:.1f} MB, images n x {} x {} x {}\n", options.onnx,
               static_cast<double>(model.size()) / 1e6, detector.network->spec().channels, detector.size,
               detector.size);
  }
  if (!options.web.empty()) {
    fill_output_folder(options.web, options.force, kWebMark, [&] {
      write_file(options.web + "/index.html", page);
      write_file(options.web + "/" + kWebMark, model);
    });
    fmt::print("{0}: open {0}/index.html in a browser\n", options.web);
  }
}

}  // namespace

void add_export(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("export", "Write a detector as an ONNX model or a web page");
  command->add_option("run", options->run, "Run folder, or a detector.safetensors")->required();
  command->add_option("--onnx", options->onnx, "The model, for any ONNX runtime")->type_name("FILE");
  command->add_option("--web", options->web, "Folder for a page that judges images in the visitor's browser")
      ->type_name("DIR");
  command
      ->add_option("--runtime", options->runtime,
                   "Folder dist of the npm package onnxruntime-web, which --web puts into the page")
      ->capture_default_str()
      ->type_name("DIR");
  command->add_flag("--force", options->force, "Replace FILE, and DIR if an earlier poem export wrote it");
  command->footer(
      "The model takes raw pixels and gives logits, features, probability, score and verdict\n"
      "(docs/deploy.md). Scores that can be exported:\n  " +
      listed(exportable_scores()) +
      ".\nExamples:\n"
      "  poem export runs/mine --onnx mine.onnx\n"
      "  npm install onnxruntime-web@1.22.0\n"
      "  poem export runs/mine --web page");
  command->callback([options] { run(*options); });
}

}  // namespace poem
