#include "train/data.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "core/named_path.h"
#include "core/text.h"
#include "detect/class_names.h"
#include "images/filters.h"
#include "poem/error.h"
#include "poem/random.h"
#include "train/outliers.h"

namespace poem {
namespace {

constexpr const char* kOod = "OOD set";

// A class whose images are all held out gets one of them back. In its place an image of a class that has
// others left is held out, if there is one.
void keep_every_class(std::vector<bool>& held_out, const ImageSet& id, Stream& stream) {
  const at::Tensor labels = id.labels.contiguous();
  const auto* label = labels.data_ptr<int64_t>();
  std::vector<int64_t> trained(id.class_names.size());  // images of each class
  for (int64_t row = 0; row < id.size(); ++row) trained[label[row]] += !held_out[row];
  const std::vector<int64_t> order = permutation(id.size(), stream);
  int64_t given_back = 0;
  for (const int64_t row : order) {
    if (!held_out[row] || trained[label[row]] > 0) continue;
    held_out[row] = false;
    ++trained[label[row]];
    ++given_back;
  }
  for (const int64_t row : order) {
    if (given_back == 0) return;
    if (held_out[row] || trained[label[row]] == 1) continue;
    held_out[row] = true;
    --trained[label[row]];
    --given_back;
  }
}

void split_validation(TrainingData& data, const Config& config) {
  const int64_t n = data.id.size();
  Stream stream(config.seed, "validation");
  std::vector<bool> held_out(n);
  for (const int64_t row : sample(n, held_out_count(config.data.validation, n), stream)) held_out[row] = true;
  keep_every_class(held_out, data.id, stream);
  for (int64_t row = 0; row < n; ++row)
    (held_out[row] ? data.validation_rows : data.train_rows).push_back(row);
}

// Class folders without an image are an Error of the reader. Labels of arrays may leave out a number.
void tell_missing_classes(const ImageSet& id) {
  const auto classes = static_cast<int64_t>(id.class_names.size());
  const at::Tensor counts = at::bincount(id.labels, {}, classes);
  std::vector<std::string> missing;
  for (int64_t i = 0; i < classes; ++i) {
    if (counts[i].item<int64_t>() == 0) missing.push_back(id.class_names[i]);
  }
  const size_t count = missing.size();
  if (count + 1 >= id.class_names.size())
    throw Error(id.name, "has images of one class only", "training needs images of at least two classes");
  if (count == 0) return;
  constexpr size_t kMost = 5;
  if (count > kMost) {
    missing.resize(kMost);
    missing.push_back(fmt::format("{} others", count - kMost));
  }
  spdlog::warn("{} has no image of class{} {}", id.name, count == 1 ? "" : "es", listed(missing));
}

Augmentation id_augmentation(const Config& config) {
  const AugmentSettings& settings = config.augment;
  Augmentation cut;
  cut.size = config.data.size;
  cut.padding = settings.padding;
  cut.flip = settings.flip;
  cut.brightness = settings.brightness;
  cut.contrast = settings.contrast;
  cut.saturation = settings.saturation;
  cut.hue = settings.hue;
  cut.jitter_share = settings.jitter_share;
  cut.grey = settings.grey;
  cut.min_area = settings.min_area;
  return cut;
}

Augmentation outlier_augmentation(const Config& config) {
  Augmentation cut;
  cut.size = config.data.size;
  cut.padding = config.outliers.padding;
  cut.flip = config.outliers.flip;
  cut.resize = config.outliers.fit == OutlierFit::kResize;
  cut.filters.clear();
  for (const std::string& name : config.outliers.filters) cut.filters.push_back(filter_of(name));
  cut.min_area = config.outliers.min_area;
  cut.brightness = cut.contrast = cut.saturation = config.outliers.jitter;
  cut.hue = config.outliers.jitter / 4;  // in turns: the usual ratio
  return cut;
}

}  // namespace

int64_t held_out_count(const std::optional<double>& share, int64_t images) {
  constexpr double kShare = 0.02, kMostShare = 0.2, kEnough = 400;
  const auto n = static_cast<double>(images);
  const double count = share ? *share * n : std::max(kShare * n, std::min(kMostShare * n, kEnough));
  return static_cast<int64_t>(count + 0.5);
}

ReadOptions read_options(const DataSettings& settings) {
  return {settings.size, settings.skip_bad, settings.folder};
}

void check_sources(const Config& config) {
  const ReadOptions options = read_options(config.data);
  check_source(config.data.train, options);
  if (config.mining.miner != "none") check_outlier_sources(config);
  if (config.data.test.empty()) {
    if (!config.data.ood.empty()) spdlog::warn("data.ood is ignored because data.test is empty");
    return;
  }
  check_file_names("data.ood", named_paths("data.ood", config.data.ood));  // of the scores that a run leaves
  check_test_sources(config.data.test, config.data.ood, options);
}

TrainingData load_training_data(const Config& config) {
  TrainingData data;
  ReadOptions labelled = read_options(config.data);
  labelled.every_class = true;
  data.id = read_images(config.data.train, labelled);
  check_channels(data.id, static_cast<int64_t>(config.network.mean.size()));
  tell_missing_classes(data.id);
  check_class_names(data.id.name, data.id.class_names);
  split_validation(data, config);

  data.id_cut = id_augmentation(config);
  data.outlier_cut = outlier_augmentation(config);
  if (config.mining.miner != "none") data.outliers = load_outliers(config, data.outlier_cut);
  spdlog::info("{} ID images in {} classes ({} held out){}", data.id.size(), data.id.class_names.size(),
               data.validation_rows.size(),
               data.outliers.empty() ? "" : fmt::format(", {} outliers", data.outliers.size()));
  return data;
}

std::vector<Crop> id_crops(const TrainingData& data, uint64_t seed, int64_t epoch) {
  Stream order(seed, "id-order", epoch);
  std::vector<Crop> crops;
  crops.reserve(data.train_rows.size());
  for (int64_t i : permutation(static_cast<int64_t>(data.train_rows.size()), order)) {
    const int64_t row = data.train_rows[i];
    crops.push_back({row, Stream(seed, "id-crop", epoch, row).bits64()});
  }
  return crops;
}

void store_crops(const std::vector<Crop>& crops, const std::string& name, TensorFile& file) {
  at::Tensor table = at::empty({static_cast<int64_t>(crops.size()), 2}, at::kLong);
  auto* out = table.data_ptr<int64_t>();
  for (const Crop& crop : crops) {
    *out++ = crop.image;
    *out++ = static_cast<int64_t>(crop.seed);
  }
  file.tensors[name] = table;
}

std::vector<Crop> load_crops(const TensorFile& file, const std::string& name, int64_t images) {
  const at::Tensor table = file.tensor(name);
  if (table.dim() != 2 || table.size(1) != 2 || table.scalar_type() != at::kLong) {
    throw Error(file.path, "tensor '" + name + "' is not a list of crops", "it was made by something else");
  }
  const at::Tensor rows = table.select(1, 0);
  if (rows.lt(0).logical_or(rows.ge(images)).any().item<bool>()) {
    throw Error(file.path, fmt::format("tensor '{}' names an image beyond the {} there are", name, images),
                "it belongs to other data, or is damaged");
  }
  const auto* in = table.data_ptr<int64_t>();
  std::vector<Crop> crops;
  for (int64_t i = 0; i < table.size(0); ++i)
    crops.push_back({in[2 * i], static_cast<uint64_t>(in[2 * i + 1])});
  return crops;
}

void check_test_sources(const std::string& id, const std::vector<std::string>& ood,
                        const ReadOptions& options) {
  const auto sources = named_paths(kOod, ood);
  check_source(id, options);
  for (const auto& [name, source] : sources) check_source(source, options);
}

TestData load_test_data(const std::string& id, const std::vector<std::string>& ood,
                        const ReadOptions& options) {
  check_test_sources(id, ood, options);
  TestData data;
  data.id = read_images(id, options);
  for (const auto& [name, source] : named_paths(kOod, ood))
    data.ood.push_back({name, read_images(source, options)});
  return data;
}

}  // namespace poem
