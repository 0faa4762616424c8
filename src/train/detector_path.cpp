#include <filesystem>
#include <string>

#include "core/file.h"
#include "core/text.h"
#include "poem/error.h"
#include "poem/training.h"
#include "readers/decode.h"
#include "readers/reader_tools.h"
#include "train/run_folder.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRemedy =
    "the detector comes first: name the folder of a training, or its detector.safetensors";

bool has_images(const std::string& folder) {
  constexpr int kMost = 10000;  // entries to look at
  std::error_code code;
  auto entry = fs::recursive_directory_iterator(folder, code);
  for (int i = 0; i < kMost && !code && entry != fs::recursive_directory_iterator(); ++i) {
    if (is_image_name(entry->path().string())) return true;
    entry.increment(code);
  }
  return false;
}

// A run among the sub-folders, or "".
std::string run_in(const std::string& folder) {
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_directory() && RunFolder(entry.path().string()).is_run()) return entry.path().string();
  return "";
}

// A safetensors file begins with the length of its header, which begins with a brace.
bool may_be_safetensors(const std::string& path) {
  const InputFile file(path);
  char start[9] = {};
  if (file.size() < sizeof start) return true;  // cut off
  file.read_at(0, start, sizeof start);
  return start[8] == '{';
}

// Arguments in the wrong order, or a file of another program.
void check_file(const std::string& path) {
  const auto refuse = [&](const std::string& what, const std::string& remedy = kRemedy) {
    throw Error(path, "is " + what + ", not a detector", remedy);
  };
  if (has_extension(path, ".yaml") || has_extension(path, ".yml")) refuse("a config");
  if (may_be_safetensors(path)) return;
  if (is_image_name(path)) refuse("an image");
  if (has_extension(path, ".onnx"))
    refuse("an ONNX model", "name the detector that it was exported from; poem cannot read it back");
  if (has_extension(path, ".pth") || has_extension(path, ".pt"))
    refuse("a file of PyTorch", "train a detector that starts from these weights: set network.init");
  refuse("something else than a safetensors file");
}

}  // namespace

std::string detector_path(const std::string& run_or_file) {
  if (fs::is_regular_file(run_or_file)) check_file(run_or_file);
  if (!fs::is_directory(run_or_file)) return run_or_file;
  const RunFolder folder(run_or_file);
  if (folder.finished()) return folder.detector;
  if (folder.is_run()) {
    throw Error(run_or_file, "has no detector yet",
                "to finish it, resume the run " + shell_quoted(run_or_file));
  }
  if (const std::string run = run_in(run_or_file); !run.empty())
    throw Error(run_or_file, "is a folder of runs, not a detector", "name one of them, such as " + run);
  throw Error(
      run_or_file,
      has_images(run_or_file) ? "is a folder of images, not a detector" : "is a folder, but not a run",
      kRemedy);
}

}  // namespace poem
