// poem predict: one verdict per image.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>

#include "cli/commands.h"
#include "core/file.h"
#include "core/interrupts.h"
#include "core/output_files.h"
#include "core/text.h"
#include "detect/predict.h"
#include "detect/predictions_output.h"
#include "detect/threshold.h"
#include "poem/error.h"
#include "poem/runtime.h"
#include "poem/training.h"
#include "report/contact_sheet.h"

namespace poem {
namespace {

const std::vector<std::string> kFormats = {"table", "csv", "jsonl", "npy"};

struct Options {
  std::string run, format, out, sheet;
  std::vector<std::string> sources;
  bool force = false;
};

// The format that was asked for, or that the name of the file says. Otherwise a table for people, csv for
// programs.
std::string format_of(const Options& options) {
  if (!options.format.empty()) return options.format;
  if (options.out.empty()) return isatty(STDOUT_FILENO) ? "table" : "csv";
  const std::string extension = std::filesystem::path(options.out).extension().string();
  if (extension.empty()) return "csv";
  const auto known = std::find(kFormats.begin(), kFormats.end(), extension.substr(1));
  if (known == kFormats.end() || *known == "table")
    throw Error(options.out, "ends in none of .csv, .jsonl and .npy", "name it so, or add --format");
  return *known;
}

// Prints lines as they come, unless they go to a file, which appears as a whole at the end.
class Output {
 public:
  Output(const Detector& detector, const Options& options)
      : detector_(detector), format_(format_of(options)), live_(options.out.empty()) {}

  void add(const Prediction& prediction) {
    if (format_ == "csv") {
      if (count_++ == 0) put(csv_head());  // not before: nothing is printed beside an error
      put(csv_line(detector_, prediction));
    } else if (format_ == "jsonl") {
      put(json_line(detector_, prediction));
    } else {
      all_.push_back(prediction);
    }
  }

  // What a file contains.
  std::string finish() {
    if (format_ == "table") put(to_table(detector_, all_, live_ ? terminal(STDOUT_FILENO) : Terminal{}));
    if (format_ == "npy") put(to_npy(detector_, all_));
    return std::move(text_);
  }

 private:
  void put(const std::string& text) {
    if (live_)
      fmt::print("{}", text);
    else
      text_ += text;
  }

  const Detector& detector_;
  std::string format_, text_;
  bool live_;
  int64_t count_ = 0;
  std::vector<Prediction> all_;
};

struct Counts {
  int64_t known = 0, unsure = 0, unknown = 0, unreadable = 0;
  int64_t sources = 0;  // that could not be read, or not to the end; nobody knows how many images they have

  void add(const Prediction& prediction) {
    const Verdict& verdict = prediction.verdict;
    if (prediction.source)
      ++sources;
    else
      ++(!prediction.error.empty() ? unreadable : verdict.known ? known : verdict.unsure ? unsure : unknown);
  }
  int64_t all() const { return known + unsure + unknown + unreadable; }
};

void check(const Options& options) {
  std::vector<std::string> sources = options.sources;
  const auto is_stream = [](const std::string& source) { return source == "-"; };
  if (std::count_if(sources.begin(), sources.end(), is_stream) > 1)
    throw Error("-", "is given twice, but standard input can be read only once", "keep one");
  sources.erase(std::remove_if(sources.begin(), sources.end(), is_stream), sources.end());
  check_predictable(sources);
  if (options.out.empty() && format_of(options) == "npy" && isatty(STDOUT_FILENO))
    throw Error("--format", "npy is not for a terminal", "write it to a file with --out");
}

void predict_all(const Detector& detector, const std::vector<std::string>& sources,
                 const UsePrediction& use) {
  const auto stream = std::find(sources.begin(), sources.end(), "-");
  predict(detector, {sources.begin(), stream}, use);
  if (stream == sources.end()) return;
  predict_stream(detector, std::cin, use);
  predict(detector, {stream + 1, sources.end()}, use);
}

void run(const Options& options, const CommonOptions& common) {
  catch_interrupts();
  const std::string path = detector_path(options.run);  // first: the arguments may be in the wrong order
  check(options);
  OutputFiles files({options.out, options.sheet}, options.force);
  for (const std::string& output : {options.out, options.sheet}) {
    std::error_code code;
    if (!output.empty() && std::filesystem::equivalent(output, path, code))
      throw Error(output, "is the detector itself", "write to another file");
  }
  const Detector detector = Detector::load(path);
  check_threshold(detector, path);
  detector.network->to(pick_device(common.device));
  Output output(detector, options);
  std::optional<ContactSheet> sheet;
  if (!options.sheet.empty()) sheet.emplace(detector);
  Counts counts;
  predict_all(detector, options.sources, [&](const Prediction& prediction, const at::Tensor& pixels) {
    counts.add(prediction);
    output.add(prediction);
    if (sheet) sheet->add(prediction, pixels);
  });
  const std::string text = output.finish();
  if (!options.out.empty())
    files.write(options.out, [&](const std::string& staged) { write_file(staged, text); });
  if (sheet)
    files.write(options.sheet, [&](const std::string& staged) { write_file(staged, sheet->html()); });
  files.commit();
  spdlog::info("{} image{}: {} known, {}{} unknown, {} unreadable", counts.all(),
               counts.all() == 1 ? "" : "s", counts.known,
               detector.unsure ? fmt::format("{} unsure, ", counts.unsure) : "", counts.unknown,
               counts.unreadable);
  std::vector<std::string> unread;
  if (counts.unreadable > 0)
    unread.push_back(
        fmt::format("{} of {} image{}", counts.unreadable, counts.all(), counts.all() == 1 ? "" : "s"));
  if (counts.sources > 0)
    unread.push_back(fmt::format("{} source{}", counts.sources, counts.sources == 1 ? "" : "s"));
  if (!unread.empty()) throw Incomplete(listed(unread) + " could not be read: see their errors");
}

}  // namespace

void add_predict(CLI::App& app, const CommonOptions& common) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("predict", "Name the class of each image, or call it unknown");
  command->add_option("run", options->run, "Run folder, or a detector.safetensors")->required();
  command
      ->add_option(
          "source", options->sources,
          "Images: files, folders, archives and other sources (docs/data.md). - reads standard input: "
          "a list of these, one per line, or a tar of images")
      ->required();
  command
      ->add_option("--format", options->format,
                   "table, csv, jsonl or npy (default: a table on a terminal, csv elsewhere)")
      ->check(CLI::IsMember(kFormats))
      ->type_name("NAME");
  command->add_option("--out", options->out, "Write to a file; .csv, .jsonl and .npy choose the format")
      ->type_name("FILE");
  command
      ->add_option("--sheet", options->sheet,
                   "Also write a page with the pictures, rejected and kept, lowest scores first")
      ->type_name("F.html");
  command->add_flag("--force", options->force, "Replace existing files");
  command->footer(
      "Columns: path; verdict (a class, unsure or unknown); predicted (the most likely class, whatever the\n"
      "verdict) and its probability; score; threshold (from this score on an image is known); p_value (how\n"
      "probable such a low score is for an image of the known classes); error.\n"
      "An image that cannot be read is a row with its error; the exit code is then 3.\n"
      "Examples:\n"
      "  poem predict runs/mine photo.jpg\n"
      "  poem predict runs/mine album/ more.zip --out verdicts.csv --sheet verdicts.html\n"
      "  find album -name '*.jpg' | poem predict runs/mine - --format jsonl\n"
      "  tar -c album | poem predict runs/mine/detector.safetensors -");
  command->callback([options, &common] { run(*options, common); });
}

}  // namespace poem
