// CIFAR-10 as PNG sprite sheets: 1024 pixels wide, row i holds the 32×32 pixels of image i. They are
// recognised by their names, as photos may be as wide. Labels lie beside the sheets, those of all
// training sheets in one list.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/file.h"
#include "poem/error.h"
#include "readers/decode.h"
#include "readers/reader_tools.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSide = 32, kClasses = 10;
constexpr const char *kTrain = "data_batch_", *kTest = "test_batch.png", *kEnding = ".png";

std::vector<std::string> sheets_of(const std::string& path) {
  if (!fs::is_directory(path)) return {path};
  return numbered_files(path, kTrain, kEnding);
}

bool is_sprites(const std::string& path) {
  if (fs::is_directory(path)) return !sheets_of(path).empty();
  const std::string name = fs::path(path).filename().string();
  return name == kTest || number_in(name, kTrain, kEnding);
}

// All labels of "train" or "test", undefined without their file. The npm package spells it "lables".
at::Tensor read_label_list(const fs::path& folder, const std::string& part) {
  for (const char* ending : {"_lables.json", "_labels.json"}) {
    const std::string file = (folder / (part + ending)).string();
    if (!fs::exists(file)) continue;
    try {
      const auto values = nlohmann::json::parse(read_file(file)).get<std::vector<int64_t>>();
      const at::Tensor labels = at::tensor(values, at::kLong);
      check_labels(file, labels, 0, kClasses - 1);
      return labels;
    } catch (const nlohmann::json::exception&) {
      throw Error(file, "is not a JSON list of labels", "download it again");
    }
  }
  return {};
}

int64_t visit_sheet(const std::string& sheet, const Sink& sink) {
  const at::Tensor pixels = decode_image(sheet, read_file(sheet));  // 3×n×1024
  if (pixels.size(2) != kSide * kSide)
    throw Error(
        sheet,
        fmt::format("is {}×{} pixels, but a CIFAR sprite sheet is 1024 wide", pixels.size(1), pixels.size(2)),
        "rename the image if it is not a sprite sheet");
  visit_in_blocks(pixels.transpose(0, 1).unflatten(2, {kSide, kSide}), sink);
  return pixels.size(1);
}

Labels visit_sprites(const std::string& path, const ReadOptions&, const Sink& sink) {
  const bool whole = fs::is_directory(path);
  const fs::path folder = whole ? fs::path(path) : fs::path(path).parent_path();
  const std::string name = fs::path(path).filename().string();
  const bool train = whole || name != kTest;
  const at::Tensor list = read_label_list(folder, train ? "train" : "test");
  int64_t count = 0;
  for (const std::string& sheet : sheets_of(path)) count += visit_sheet(sheet, sink);
  if (!list.defined()) return {};
  // data_batch_K alone: its labels follow those of the K − 1 sheets before it, which have as many images.
  const int64_t before =
      train && !whole ? std::max<int64_t>(0, *number_in(name, kTrain, kEnding) - 1) * count : 0;
  if (before + count > list.size(0) || ((whole || !train) && count != list.size(0)))
    throw Error(path, fmt::format("has {} images, but its file of labels has {}", count, list.size(0)),
                "download the sheets and their labels again");
  return {list.narrow(0, before, count).clone(),
          read_class_names((folder / "batches.meta.txt").string(), kClasses)};
}

}  // namespace

extern const Reader sprites_reader = {
    "CIFAR-10 sprite sheet data_batch_N.png or test_batch.png, or the folder of data_batch_N.png", is_sprites,
    visit_sprites};

}  // namespace poem
