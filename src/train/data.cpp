#include "train/data.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "core/named_path.h"
#include "poem/error.h"
#include "poem/random.h"

namespace poem {
namespace {

constexpr const char* kOod = "OOD set";

void split_validation(TrainingData& data, const Config& config) {
  const int64_t n = data.id.size(), held_out = held_out_count(config.data.validation, n);
  Stream stream(config.seed, "validation");
  data.validation_rows = sample(n, held_out, stream);
  auto next = data.validation_rows.begin();
  for (int64_t row = 0; row < n; ++row) {
    if (next != data.validation_rows.end() && *next == row) {
      ++next;
    } else {
      data.train_rows.push_back(row);
    }
  }
  if (data.train_rows.empty())
    throw Error(config.data.train, "leaves no image to train on", "lower data.validation");
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
  if (config.mining.miner != "none") check_source(config.data.outliers, options);
  if (config.data.test.empty()) {
    if (!config.data.ood.empty()) spdlog::warn("data.ood is of no use: data.test is empty");
    return;
  }
  check_file_names("data.ood", named_paths("data.ood", config.data.ood));  // of the scores that a run leaves
  check_test_sources(config.data.test, config.data.ood, options);
}

TrainingData load_training_data(const Config& config) {
  TrainingData data;
  const ReadOptions fitted = read_options(config.data);
  ReadOptions original = fitted;
  original.size = 0;
  const bool resize = config.outliers.fit == "resize";
  ReadOptions labelled = fitted;
  labelled.every_class = true;
  data.id = read_images(config.data.train, labelled);
  if (!data.id.labelled()) {
    throw Error(config.data.train, "has no labels, or a single class",
                "training needs one sub-folder (or label) a class");
  }
  const auto channels = static_cast<int64_t>(config.network.mean.size());
  check_channels(data.id, channels);
  split_validation(data, config);

  const AugmentSettings& a = config.augment;
  data.id_cut = {config.data.size, a.padding,    true,  a.flip,         false,  a.brightness,
                 a.contrast,       a.saturation, a.hue, a.jitter_share, a.grey, a.min_area};
  data.outlier_cut = {config.data.size, config.outliers.padding, true, config.outliers.flip, resize};
  if (config.mining.miner != "none") {
    // What is mapped stays so and is resized crop by crop; other sources are brought to size while they are
    // read.
    const bool mapped = is_mapped(config.data.outliers, original);
    data.outliers = read_images(config.data.outliers, resize && !mapped ? fitted : original);
    check_channels(data.outliers, channels);
    const Crop any{0, 0};
    cut(data.outliers, &any, 1, data.outlier_cut);  // an Error now if they are too small
    const int64_t side = std::min(data.outliers.height(), data.outliers.width());
    if (side < config.data.size && side > 1) {  // points have one pixel
      spdlog::warn(
          "{}: the outliers have {} pixels, less than data.size, and get a black frame "
          "(outliers.fit: resize enlarges them)",
          config.data.outliers, side);
    }
  }
  spdlog::info("{} ID images in {} classes ({} held out){}", data.id.size(), data.id.class_names.size(),
               data.validation_rows.size(),
               data.outliers.pixels.defined() ? fmt::format(", {} outliers", data.outliers.size()) : "");
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
    data.ood.emplace_back(name, read_images(source, options));
  return data;
}

}  // namespace poem
