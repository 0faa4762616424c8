#include "train/data.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "core/npy.h"
#include "encode_images.h"
#include "expect_error.h"
#include "log.h"
#include "poem/random.h"
#include "poem/read.h"
#include "temporary_folder.h"

namespace poem {
namespace {

Config points(int64_t count, double validation) {
  Config config;
  config.data.train = "world2d:train:" + std::to_string(count);
  config.data.outliers = {"world2d:outliers:50"};
  config.data.size = 1;
  config.data.validation = validation;
  config.network.name = "mlp";
  config.network.mean = {0, 0};
  config.network.std = {1, 1};
  return config;
}

std::vector<int64_t> images(const std::vector<Crop>& crops) {
  std::vector<int64_t> result;
  for (const Crop& crop : crops) result.push_back(crop.image);
  return result;
}

TEST(TrainingData, ValidationIsHeldOutAndNothingIsLost) {
  for (const double share : {0.0, 0.02, 0.25, 0.5}) {
    const TrainingData data = load_training_data(points(200, share));
    EXPECT_EQ(data.validation_rows.size(), static_cast<size_t>(200 * share + 0.5));
    std::vector<int64_t> all = data.train_rows;
    all.insert(all.end(), data.validation_rows.begin(), data.validation_rows.end());
    std::sort(all.begin(), all.end());
    std::vector<int64_t> expected(200);
    std::iota(expected.begin(), expected.end(), int64_t{0});
    EXPECT_EQ(all, expected);
  }
}

TEST(TrainingData, OfFewImagesMoreAreHeldOut) {
  EXPECT_EQ(held_out_count(std::nullopt, 50000), 1000);  // 2 %, as in CIFAR
  EXPECT_EQ(held_out_count(std::nullopt, 20000), 400);
  EXPECT_EQ(held_out_count(std::nullopt, 4000), 400);
  EXPECT_EQ(held_out_count(std::nullopt, 480), 96);  // a fifth
  EXPECT_EQ(held_out_count(std::nullopt, 2), 0);
  EXPECT_EQ(held_out_count(0.05, 4000), 200);  // what is given is kept to
  EXPECT_EQ(held_out_count(0.0, 4000), 0);
}

TEST(TrainingData, TheSplitFollowsTheSeed) {
  Config config = points(200, 0.25);
  const auto rows = [&](int64_t seed) {
    config.seed = seed;
    return load_training_data(config).validation_rows;
  };
  EXPECT_EQ(rows(1), rows(1));
  EXPECT_NE(rows(1), rows(2));
}

// Blank images of 2×2 pixels with these labels, as an .npy in `folder`.
Config images_with(const TemporaryFolder& folder, const std::vector<int64_t>& labels, double validation) {
  const auto count = static_cast<int64_t>(labels.size());
  write_npy(folder / "images.npy", at::zeros({count, 3, 2, 2}, at::kByte));
  write_npy(folder / "images_labels.npy", at::tensor(labels));
  Config config = points(1, validation);
  config.data.train = folder / "images.npy";
  config.data.size = 2;
  config.mining.miner = "none";
  config.network.mean = config.network.std = {1, 1, 1};
  return config;
}

// By brute force over seeds: however the draw falls, each class is trained on, and as many images are held
// out as were asked for. Where the draw leaves every class an image, it is kept as it is.
TEST(TrainingData, EveryClassIsTrainedOn) {
  const TemporaryFolder folder;
  const std::vector<int64_t> labels = {0, 1, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0};  // 9, 2 and 1 images
  Config config = images_with(folder, labels, 0.5);
  int drawn_as_it_is = 0;
  for (config.seed = 0; config.seed < 50; ++config.seed) {
    const TrainingData data = load_training_data(config);
    std::set<int64_t> trained;
    for (const int64_t row : data.train_rows) trained.insert(labels[row]);
    EXPECT_EQ(trained, (std::set<int64_t>{0, 1, 2})) << config.seed;
    EXPECT_EQ(data.validation_rows.size(), 6u) << config.seed;
    Stream stream(config.seed, "validation");
    const std::vector<int64_t> drawn = sample(12, 6, stream);
    std::set<int64_t> left = {0, 1, 2};
    for (int64_t row = 0; row < 12; ++row) {
      if (!std::binary_search(drawn.begin(), drawn.end(), row)) left.erase(labels[row]);
    }
    if (!left.empty()) continue;
    ++drawn_as_it_is;
    EXPECT_EQ(data.validation_rows, drawn) << config.seed;
  }
  EXPECT_GT(drawn_as_it_is, 0);
  EXPECT_LT(drawn_as_it_is, 50);
}

TEST(TrainingData, AClassOfASingleImageIsTrainedOn) {
  const TemporaryFolder folder;
  const TrainingData data = load_training_data(images_with(folder, {0, 1, 2, 3}, 0.5));
  EXPECT_EQ(data.train_rows, (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_TRUE(data.validation_rows.empty());
}

// Labels 0 and 2: class 1 is only a number.
TEST(TrainingData, AClassThatTheSourceHasNoImageOfIsNamed) {
  const TemporaryFolder folder;
  const Config config = images_with(folder, {0, 0, 2, 2}, 0.5);
  const Log log;
  EXPECT_EQ(load_training_data(config).train_rows.size(), 2u);
  EXPECT_NE(log.text().find("[warning] " + config.data.train + " has no image of class 1"), std::string::npos)
      << log.text();
}

TEST(TrainingData, OneClassIsNotEnough) {
  const TemporaryFolder folder;
  for (const int64_t label : {0, 1, 7}) {
    const Config config = images_with(folder, {label, label, label}, 0);
    expect_error([&] { load_training_data(config); }, {config.data.train, "one class only", "two classes"});
  }
}

// 300 GB that nobody has to read, nor to have room for.
TEST(TrainingData, MissingLabelsAreFoundBeforePixelsAreRead) {
  const TemporaryFolder folder;
  Config config = images_with(folder, {0, 1}, 0);
  const std::string path = folder / "huge.npy";
  std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (100000000, 3, 32, 32), }";
  header.resize(117, ' ');
  folder.put("huge.npy", std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n");
  std::filesystem::resize_file(path, 128 + 100000000 * uint64_t{3 * 32 * 32});
  for (const char* part : {"", "#count=1000"}) {
    config.data.train = path + part;
    expect_error([&] { load_training_data(config); }, {path, "has no labels", "per class"});
  }
}

TEST(TrainingData, ImagesThatDoNotFitAreErrors) {
  Config config = points(20, 0);
  config.network.mean = config.network.std = {1, 1, 1};
  expect_error([&] { load_training_data(config); },
               {"world2d:train:20", "2 channels", "takes 3", "network.mean"});
  config = points(20, 0);
  config.data.train = "world2d:outliers:20";
  expect_error([&] { load_training_data(config); }, {"world2d:outliers:20", "no labels"});
}

TEST(TrainingData, AClassWithoutAnImageIsAnError) {
  TemporaryFolder folder;
  for (const char* name : {"cat/1.png", "dog/1.png"})
    folder.put(name, encode_png(random_bytes({2, 2, 3}, 1)));
  Config config = points(20, 0);
  config.data.train = folder.path();
  config.data.size = 2;
  config.mining.miner = "none";
  config.network.mean = config.network.std = {1, 1, 1};
  EXPECT_EQ(load_training_data(config).id.size(), 2);
  folder.put("emu/1.heic", "");
  expect_error([&] { load_training_data(config); }, {folder.path(), "without an image: emu (1 .heic)"});
}

// A detector's file could not keep the names, and both are the same there.
TEST(TrainingData, ClassNamesThatAreNotUtf8AreErrors) {
  for (const char* other : {"caf\xe8", "dog"}) {
    TemporaryFolder folder;
    for (const std::string name : {"caf\xe9", other})
      folder.put(name + "/1.png", encode_png(random_bytes({2, 2, 3}, 1)));
    Config config = points(20, 0);
    config.data.train = folder.path();
    config.data.size = 2;
    config.mining.miner = "none";
    config.network.mean = config.network.std = {1, 1, 1};
    expect_error([&] { load_training_data(config); },
                 {folder.path(), "has a class 'caf\uFFFD', whose name is not UTF-8", "rename its folder"});
    std::filesystem::rename(folder / "caf\xe9", folder / "café");
    std::filesystem::rename(folder / other, folder / "dog");
    EXPECT_EQ(load_training_data(config).id.class_names, (std::vector<std::string>{"café", "dog"}));
  }
}

TEST(TrainingData, WithoutMinerNoOutliersAreRead) {
  Config config = points(20, 0);
  config.mining.miner = "none";
  config.data.outliers = {"no such file"};
  EXPECT_TRUE(load_training_data(config).outliers.empty());
}

// Packed images stay larger than data.size and are resized crop by crop; other sources can only be blurred.
TEST(TrainingData, FiltersOfOutliers) {
  TemporaryFolder folder;
  pack_images("world:outliers:20", folder / "outliers.poem", {});
  Config config;
  config.data.train = "world:train:40";
  config.data.size = 16;
  config.outliers.fit = OutlierFit::kResize;
  const auto logged = [&](const std::string& source, const std::vector<std::string>& filters) {
    config.data.outliers = {source};
    config.outliers.filters = filters;
    const Log log;
    const TrainingData data = load_training_data(config);
    EXPECT_EQ(data.outlier_cut.filters.size(), filters.size());
    EXPECT_EQ(data.id_cut.filters, std::vector<Filter>{Filter::kArea});
    return log.text();
  };
  const auto idle = [](const std::string& log) { return log.find("no effect") != std::string::npos; };
  EXPECT_FALSE(idle(logged(folder / "outliers.poem", {"lanczos", "piece"})));
  EXPECT_TRUE(idle(logged("world:outliers:20", {"lanczos", "piece"})));
  EXPECT_TRUE(idle(logged("world:outliers:20", {"lanczos", "gaussian"})));
  EXPECT_FALSE(idle(logged("world:outliers:20", {"area", "gaussian"})));
  EXPECT_FALSE(idle(logged("world:outliers:20", {"area"})));
}

TEST(TrainingData, OutliersMayBeJitteredAndCutAtRandomSizes) {
  Config config = points(40, 0);
  EXPECT_TRUE(only_moves(load_training_data(config).outlier_cut));
  config.outliers.jitter = 0.4;
  config.outliers.min_area = 0.3;
  const TrainingData data = load_training_data(config);
  const Augmentation& cut = data.outlier_cut;
  EXPECT_EQ(std::vector<double>({cut.brightness, cut.contrast, cut.saturation, cut.hue, cut.min_area}),
            std::vector<double>({0.4, 0.4, 0.4, 0.1, 0.3}));
  EXPECT_FALSE(only_moves(cut));  // so that a GPU gets its crops from the CPU
  EXPECT_TRUE(only_moves(data.id_cut));
}

// Images of a quarter of data.size: padded they lie in a black frame, as boxes they fill the crop.
TEST(TrainingData, SmallOutliersFillTheirRandomResizedCrops) {
  TemporaryFolder folder;
  write_npy(folder / "small.npy", at::full({20, 8, 8, 3}, 200, at::kByte));
  Config config;
  config.data.train = "world:train:40";
  config.data.outliers = {folder / "small.npy"};
  config.outliers.padding = 12;
  const auto framed = [&] {
    const Log log;
    const TrainingData data = load_training_data(config);
    const std::vector<Crop> crops = {{0, 1}, {3, 2}, {5, 3}};
    const bool black = cut(data.outliers, crops.data(), 3, data.outlier_cut).eq(0).any().item<bool>();
    EXPECT_EQ(log.text().find("black frame") != std::string::npos, black);
    return black;
  };
  EXPECT_TRUE(framed());
  config.outliers.min_area = 0.5;
  EXPECT_FALSE(framed());
}

TEST(IdCrops, VisitEveryTrainingImageOnceInAnOrderOfTheEpoch) {
  const TrainingData data = load_training_data(points(200, 0.25));
  const auto first = images(id_crops(data, 3, 0)), second = images(id_crops(data, 3, 1));
  EXPECT_NE(first, second);
  EXPECT_NE(first, images(id_crops(data, 4, 0)));
  EXPECT_EQ(first, images(id_crops(data, 3, 0)));
  for (std::vector<int64_t> order : {first, second}) {
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, data.train_rows);  // so none of the validation rows
  }
}

TEST(IdCrops, EveryImageAndEpochHasACropOfItsOwn) {
  const TrainingData data = load_training_data(points(200, 0.25));
  std::set<uint64_t> seeds;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    for (const Crop& crop : id_crops(data, 3, epoch)) seeds.insert(crop.seed);
  }
  EXPECT_EQ(seeds.size(), 4u * 150);
}

TEST(Crops, ComeBackFromAFile) {
  TemporaryFolder folder;
  const std::vector<Crop> crops = {{0, 0}, {1, UINT64_MAX}, {INT64_MAX - 1, 1ull << 63}, {5, 12345}};
  TensorFile file;
  store_crops(crops, "some", file);
  store_crops({}, "none", file);
  write_safetensors(folder / "f", file);
  const TensorFile back = read_safetensors(folder / "f");
  const std::vector<Crop> loaded = load_crops(back, "some", INT64_MAX);
  ASSERT_EQ(loaded.size(), crops.size());
  for (size_t i = 0; i < crops.size(); ++i) {
    EXPECT_EQ(loaded[i].image, crops[i].image);
    EXPECT_EQ(loaded[i].seed, crops[i].seed);
  }
  EXPECT_TRUE(load_crops(back, "none", 0).empty());
  expect_error([&] { load_crops(back, "some", 6); }, {folder / "f", "'some'", "beyond the 6"});
}

TEST(Subset, TakesPixelsAndLabelsOfTheRows) {
  const TrainingData data = load_training_data(points(20, 0));
  const ImageSet part = subset(data.id, {7, 3});
  EXPECT_EQ(part.size(), 2);
  EXPECT_TRUE(part.pixels[0].equal(data.id.pixels[7]));
  EXPECT_TRUE(part.pixels[1].equal(data.id.pixels[3]));
  EXPECT_TRUE(part.labels[0].equal(data.id.labels[7]));
  EXPECT_EQ(subset(data.outliers.parts()[0].images, {4}).labelled(), false);
}

TEST(TestData, NamesAreCheckedBeforeAnythingIsRead) {
  expect_error([] { load_test_data("no such file", {"a=b", "c"}, {1}); }, {"'c' is not NAME=PATH"});
  expect_error([] { load_test_data("no such file", {"a=b", "a=c"}, {1}); }, {"'a' is given twice"});
  const TestData data = load_test_data("world2d:test:5", {"far=world2d:ood:4"}, {1});
  EXPECT_EQ(data.id.size(), 5);
  EXPECT_EQ(data.ood.front().name, "far");
  EXPECT_EQ(data.ood.front().images.size(), 4);
}

}  // namespace
}  // namespace poem
