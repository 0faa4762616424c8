// NumPy arrays: images in .npy or .npz, and the .npz batches of downsampled ImageNet.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/npy.h"
#include "data/reader.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostClasses = 65536;  // a larger label is a mistake, not a class
constexpr int64_t kImageNetClasses = 1000;

std::string shape_text(const at::Tensor& array) {
  return fmt::format("{}", fmt::join(array.sizes().vec(), "×"));
}

bool is_channels(int64_t axis) { return axis == 1 || axis == 3; }

// n×C×H×W as a view, whatever the order of the axes.
at::Tensor as_images(const std::string& where, const at::Tensor& array) {
  if (array.scalar_type() != at::kByte)
    throw Error(where, fmt::format("has elements of type {}, images are uint8", numpy_type(array)),
                "save values of 0 to 255 as uint8");
  if (array.dim() == 3) return array.unsqueeze(1);
  if (array.dim() == 4 && is_channels(array.size(1))) return array;
  if (array.dim() == 4 && is_channels(array.size(3))) return array.permute({0, 3, 1, 2});
  throw Error(where, fmt::format("has shape {}", shape_text(array)),
              "save N×H×W, N×H×W×C or N×C×H×W with 1 or 3 channels");
}

at::Tensor as_labels(const std::string& where, const at::Tensor& array, int64_t count) {
  if (!c10::isIntegralType(array.scalar_type(), /*includeBool=*/false))
    throw Error(where, fmt::format("has labels of type {}", numpy_type(array)), "save them as integers");
  const at::Tensor labels = array.reshape({-1}).to(at::kLong);
  if (labels.size(0) != count)
    throw Error(where, fmt::format("has {} labels for {} images", labels.size(0), count),
                "save one an image");
  return labels;
}

Labels numbered(const std::string& where, const at::Tensor& labels) {
  check_labels(where, labels, 0, kMostClasses - 1);
  return {labels, number_names(labels.numel() == 0 ? 0 : labels.max().item<int64_t>() + 1)};
}

bool is_npy(const std::string& path) { return has_extension(path, ".npy"); }

Labels visit_npy(const std::string& path, const ReadOptions&, const Sink& sink) {
  const at::Tensor images = as_images(path, map_npy(path));
  Labels labels;
  const std::string stem = path.substr(0, path.size() - 4);
  for (const std::string& beside : {stem + "_labels.npy", stem + ".labels.npy"}) {
    if (!fs::exists(beside)) continue;
    labels = numbered(beside, as_labels(beside, read_npy(beside), images.size(0)));
    break;
  }
  visit_in_blocks(images, sink);
  return labels;
}

std::vector<std::string> npz_files(const std::string& path) {
  if (!fs::is_directory(path)) return {path};
  return numbered_files(path, "train_data_batch_", ".npz");
}

bool is_npz(const std::string& path) {
  return fs::is_directory(path) ? !npz_files(path).empty() : has_extension(path, ".npz");
}

at::Tensor find(const std::map<std::string, at::Tensor>& arrays, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto found = arrays.find(name); found != arrays.end()) return found->second;
  return {};
}

// n×(3·s·s), planes R, G, B.
at::Tensor unflatten_rows(const std::string& where, const at::Tensor& rows) {
  const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(rows.size(1)) / 3)));
  if (side == 0 || 3 * side * side != rows.size(1))
    throw Error(where, fmt::format("has rows of {} values, not 3·s·s of a square image", rows.size(1)),
                "name a batch of downsampled ImageNet");
  return rows.reshape({rows.size(0), 3, side, side});
}

Labels visit_npz_file(const std::string& file, const Sink& sink) {
  const std::map<std::string, at::Tensor> arrays = read_npz(file);
  at::Tensor images = find(arrays, {"images", "x", "data"});
  const at::Tensor labels = find(arrays, {"labels", "y"});
  if (!images.defined())
    throw Error(file, "has none of the arrays images, x, data", "rename the array of images");
  const bool downsampled = images.dim() == 2;
  images = as_images(file, downsampled ? unflatten_rows(file, images) : images);
  Labels result;
  if (labels.defined() && downsampled) {
    result = {as_labels(file, labels, images.size(0)), number_names(kImageNetClasses, 1)};
    check_labels(file, result.labels, 1, kImageNetClasses);
    result.labels = result.labels - 1;
  } else if (labels.defined()) {
    result = numbered(file, as_labels(file, labels, images.size(0)));
  }
  visit_in_blocks(images, sink);
  return result;
}

Labels visit_npz(const std::string& path, const ReadOptions&, const Sink& sink) {
  Labels all;
  std::vector<at::Tensor> parts;
  const std::vector<std::string> files = npz_files(path);
  for (const std::string& file : files) {
    Labels part = visit_npz_file(file, sink);
    if (!parts.empty() && part.labels.defined() != parts[0].defined())
      throw Error(file, "one of this file and " + files[0] + " has labels, the other none",
                  "give both or neither");
    parts.push_back(part.labels);
    if (part.class_names.size() > all.class_names.size()) all.class_names = part.class_names;
  }
  if (parts[0].defined()) all.labels = at::cat(parts);
  return all;
}

}  // namespace

extern const Reader npy_reader = {".npy of uint8 images", is_npy, visit_npy};
extern const Reader npz_reader = {".npz of uint8 images, or the folder of train_data_batch_N.npz", is_npz,
                                  visit_npz};

}  // namespace poem
