#include "train/data.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "encode_images.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace poem {
namespace {

Config points(int64_t count, double validation) {
  Config config;
  config.data.train = "world2d:train:" + std::to_string(count);
  config.data.outliers = "world2d:outliers:50";
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

TEST(TrainingData, NothingLeftToTrainOnIsAnError) {
  expect_error([] { load_training_data(points(1, 0.5)); }, {"world2d:train:1", "data.validation"});
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

TEST(TrainingData, WithoutMinerNoOutliersAreRead) {
  Config config = points(20, 0);
  config.mining.miner = "none";
  config.data.outliers = "no such file";
  EXPECT_FALSE(load_training_data(config).outliers.pixels.defined());
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
  EXPECT_EQ(subset(data.outliers, {4}).labelled(), false);
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
