// NumPy arrays: images in .npy or .npz, and the .npz batches of downsampled ImageNet.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/interrupts.h"
#include "core/npy.h"
#include "core/progress.h"
#include "poem/error.h"
#include "readers/reader_tools.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostClasses = 65536;  // a larger label is a mistake, not a class
constexpr int64_t kImageNetClasses = 1000;

bool is_channels(int64_t axis) { return axis == 1 || axis == 3; }

// How a row of an array stores an image.
struct Layout {
  int64_t channels, height, width;
  bool last;  // channels vary fastest

  std::vector<int64_t> shape() const { return {channels, height, width}; }
  // n×C×H×W as a view.
  at::Tensor operator()(const at::Tensor& rows) const {
    return last ? rows.permute({0, 3, 1, 2}) : rows.view({rows.size(0), channels, height, width});
  }
};

// n×(3·s·s), planes R, G, B: downsampled ImageNet.
Layout flat_layout(const StoredArray& array) {
  const int64_t values = array.shape()[1];
  const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(values) / 3)));
  if (side == 0 || 3 * side * side != values)
    throw Error(array.where(),
                fmt::format("has rows of {} values, which is not 3·s·s for a square image", values),
                "name a batch of downsampled ImageNet");
  return {3, side, side, false};
}

Layout layout_of(const StoredArray& array) {
  if (array.type() != "uint8")
    throw Error(array.where(), fmt::format("has elements of type {}, but images must be uint8", array.type()),
                "save values of 0 to 255 as uint8");
  const std::vector<int64_t>& shape = array.shape();
  if (shape.size() == 3) return {1, shape[1], shape[2], false};
  if (shape.size() == 4 && is_channels(shape[1])) return {shape[1], shape[2], shape[3], false};
  if (shape.size() == 4 && is_channels(shape[3])) return {shape[3], shape[1], shape[2], true};
  throw Error(array.where(), fmt::format("has shape {}", fmt::join(shape, "×")),
              "save N×H×W, N×H×W×C or N×C×H×W with 1 or 3 channels");
}

at::Tensor read_labels(const StoredArray& array, int64_t count) {
  if (array.type().find("int") == std::string::npos)
    throw Error(array.where(), fmt::format("has labels of type {}", array.type()), "save them as integers");
  const at::Tensor labels = array.read().reshape({-1}).to(at::kLong);
  if (labels.size(0) != count)
    throw Error(array.where(), fmt::format("has {} labels for {} images", labels.size(0), count),
                "save one label per image");
  return labels;
}

Labels numbered(const std::string& where, const at::Tensor& labels) {
  check_labels(where, labels, 0, kMostClasses - 1);
  return {labels, number_names(labels.numel() == 0 ? 0 : labels.max().item<int64_t>() + 1)};
}

// An array of images, of which only the header was read, and their labels.
struct Batch {
  StoredArray array;
  Layout layout;
  Labels labels;

  int64_t size() const { return array.shape()[0]; }
};

bool is_npy(const std::string& path) { return has_extension(path, ".npy"); }

std::vector<Batch> open_npy_images(const std::string& path) {
  const StoredArray array = open_npy(path);
  Batch batch{array, layout_of(array), {}};
  const std::string stem = path.substr(0, path.size() - 4);
  for (const std::string& beside : {stem + "_labels.npy", stem + ".labels.npy"}) {
    if (!fs::exists(beside)) continue;
    batch.labels = numbered(beside, read_labels(open_npy(beside), batch.size()));
    break;
  }
  return {batch};
}

std::vector<std::string> npz_files(const std::string& path) {
  if (!fs::is_directory(path)) return {path};
  return numbered_files(path, "train_data_batch_", ".npz");
}

bool is_npz(const std::string& path) {
  return fs::is_directory(path) ? !npz_files(path).empty() : has_extension(path, ".npz");
}

const StoredArray* find(const std::map<std::string, StoredArray>& arrays,
                        std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto found = arrays.find(name); found != arrays.end()) return &found->second;
  return nullptr;
}

Batch open_batch(const std::string& file) {
  const std::map<std::string, StoredArray> arrays = open_npz(file);
  const StoredArray *images = find(arrays, {"images", "x", "data"}), *labels = find(arrays, {"labels", "y"});
  if (images == nullptr)
    throw Error(file, "has none of the arrays images, x, data", "rename the array of images");
  const bool downsampled = images->shape().size() == 2;
  Batch batch{*images, downsampled ? flat_layout(*images) : layout_of(*images), {}};
  if (labels == nullptr) return batch;
  const at::Tensor values = read_labels(*labels, batch.size());
  if (!downsampled) {
    batch.labels = numbered(file, values);
    return batch;
  }
  check_labels(file, values, 1, kImageNetClasses);
  batch.labels = {values - 1, number_names(kImageNetClasses, 1)};
  return batch;
}

std::vector<Batch> open_npz_images(const std::string& path) {
  std::vector<Batch> batches;
  const std::vector<std::string> files = npz_files(path);
  for (const std::string& file : files) {
    batches.push_back(open_batch(file));
    if (batches.back().labels.labels.defined() != batches[0].labels.labels.defined())
      throw Error(file, "either this file or " + files[0] + " has no labels",
                  "give all batches labels, or none");
  }
  return batches;
}

// ---- the batches as one source --------------------------------------------------------------------------

int64_t count(const std::vector<Batch>& batches) {
  int64_t sum = 0;
  for (const Batch& batch : batches) sum += batch.size();
  return sum;
}

Labels labels_of(const std::vector<Batch>& batches) {
  Labels all;
  std::vector<at::Tensor> parts;
  for (const Batch& batch : batches) {
    parts.push_back(batch.labels.labels);
    if (batch.labels.class_names.size() > all.class_names.size()) all.class_names = batch.labels.class_names;
  }
  if (parts[0].defined()) all.labels = at::cat(parts);
  return all;
}

// The block's rows that are among `chosen` (ascending). The block begins with row `first`.
at::Tensor choose_from(const at::Tensor& block, int64_t first, const std::vector<int64_t>& chosen) {
  const auto begin = std::lower_bound(chosen.begin(), chosen.end(), first),
             end = std::lower_bound(begin, chosen.end(), first + block.size(0));
  return block.index_select(0, at::tensor(std::vector<int64_t>(begin, end), at::kLong) - first);
}

// Passes all images, or those of the chosen rows, to the sink. Only one block of the file is in memory at a
// time.
void visit_rows(const std::vector<Batch>& batches, const std::vector<int64_t>* chosen, const Sink& sink) {
  constexpr int64_t kBlockBytes = 16 << 20;
  Progress bar("reading", count(batches), "images");
  int64_t first = 0;
  for (const Batch& batch : batches) {
    const Layout& layout = batch.layout;
    const int64_t bytes = layout.channels * layout.height * layout.width;
    batch.array.for_each_block(std::max<int64_t>(1, kBlockBytes / std::max<int64_t>(1, bytes)),
                               [&](const at::Tensor& rows) {
                                 stop_if_interrupted();
                                 const at::Tensor block = chosen ? choose_from(rows, first, *chosen) : rows;
                                 if (block.size(0) > 0) sink(layout(block).contiguous());
                                 first += rows.size(0);
                                 bar.advance(rows.size(0));
                               });
  }
}

using Open = std::vector<Batch> (*)(const std::string& path);

template <Open open>
Labels visit(const std::string& path, const ReadOptions&, const Sink& sink) {
  const std::vector<Batch> batches = open(path);
  visit_rows(batches, nullptr, sink);
  return labels_of(batches);
}

template <Open open>
Labels visit_part(const std::string& path, const ReadOptions&, const Choose& choose, const Sink& sink) {
  const std::vector<Batch> batches = open(path);
  Labels labels = labels_of(batches);
  const std::vector<int64_t> rows = choose(count(batches), labels);
  visit_rows(batches, &rows, sink);
  if (labels.labels.defined()) labels.labels = labels.labels.index_select(0, at::tensor(rows, at::kLong));
  return labels;
}

template <Open open>
Outline outline(const std::string& path) {
  const std::vector<Batch> batches = open(path);
  Outline outline{count(batches), batches[0].layout.shape(), labels_of(batches)};
  if (std::any_of(batches.begin(), batches.end(),
                  [&](const Batch& batch) { return batch.layout.shape() != outline.shape; }))
    outline.shape.clear();
  return outline;
}

}  // namespace

extern const Reader npy_reader = {".npy of uint8 images",      is_npy,
                                  visit<open_npy_images>,      nullptr,
                                  visit_part<open_npy_images>, outline<open_npy_images>};
extern const Reader npz_reader = {".npz of uint8 images, or the folder of train_data_batch_N.npz",
                                  is_npz,
                                  visit<open_npz_images>,
                                  nullptr,
                                  visit_part<open_npz_images>,
                                  outline<open_npz_images>};

}  // namespace poem
