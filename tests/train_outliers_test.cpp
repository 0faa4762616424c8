#include "train/outliers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/npy.h"
#include "encode_images.h"
#include "expect_error.h"
#include "log.h"
#include "poem/read.h"
#include "readers/source.h"
#include "temporary_folder.h"
#include "train/data.h"
#include "train/memory.h"

namespace poem {
namespace {

using Shares = std::vector<std::optional<double>>;

Config config_of(std::vector<std::string> outliers) {
  Config config;
  config.data.train = "world:train:40";
  config.data.outliers = std::move(outliers);
  config.mining.pool = 100;
  return config;
}

TEST(OutlierShares, SplitTheRestBySize) {
  const auto near = [](const std::vector<double>& got, const std::vector<double>& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12);
  };
  near(fill_shares({std::nullopt}, {7}), {1});
  near(fill_shares({1.0}, {7}), {1});
  near(fill_shares({std::nullopt, std::nullopt}, {10, 30}), {0.25, 0.75});
  near(fill_shares({0.3, std::nullopt}, {10, 1000000}), {0.3, 0.7});
  near(fill_shares({std::nullopt, 0.6, std::nullopt}, {10, 5, 30}), {0.1, 0.6, 0.3});
  near(fill_shares({0.333333, 0.333333, 0.333334}, {1, 1, 1}), {0.333333, 0.333333, 0.333334});
}

TEST(OutlierSources, BadOnesAreNamed) {
  const auto refused = [](std::vector<std::string> sources, const std::vector<std::string>& words) {
    expect_error([&] { check_outlier_sources(config_of(std::move(sources))); }, words);
  };
  const std::string a = "world:outliers:30", b = "world:digits:30";
  refused({a + "#share=0.7", b + "#share=0.4"}, {"data.outliers", "add up to 1.1", "1 in total"});
  refused({a + "#share=0.5", b + "#share=0.4"}, {"data.outliers", "add up to 0.9", "leave out one #share"});
  refused({a + "#share=0.5"}, {"data.outliers", "add up to 0.5"});
  refused({a + "#share=1", b}, {"data.outliers", "nothing is left", "lower a share"});
  refused({a + "#share=0", b}, {"world:outliers:30#share=0", "#share is '0'", "above 0 and at most 1"});
  refused({a + "#share=1.5", b}, {"#share is '1.5'"});
  refused({a + "#share=nan", b}, {"#share is 'nan'"});
  refused({a + "#share=", b}, {"#share is ''"});
  refused({a + "#share=0.1#share=0.1", b}, {"'#share' is given twice"});
  refused({a + "#share=0.1", b, a}, {"data.outliers", "names world:outliers:30 twice"});
  refused({a, ""}, {"data.outliers", "empty"});
  refused({a, "nowhere.poem"}, {"nowhere.poem", "no such file"});
  check_outlier_sources(config_of({a + "#share=0.1", b}));
  check_outlier_sources(config_of({a + "#share=1"}));
}

TEST(OutlierSources, OneFolderNamedInTwoWaysIsTheSame) {
  TemporaryFolder folder;
  Config config = config_of({"photos", "./photos/"});
  config.data.folder = folder / "";
  std::filesystem::create_directory(folder / "photos");
  expect_error([&] { check_outlier_sources(config); }, {"names ./photos/ twice"});
  config.data.outliers = {"photos#count=5", "photos#count=5#seed=1"};  // two random parts
  check_outlier_sources(config);
}

// Image i of a world depends on set, seed and i alone: a smaller count is a prefix.
TEST(OutlierSources, OneWorldNamedInTwoWaysIsTheSame) {
  const auto refused = [](const std::string& first, const std::string& second) {
    expect_error(
        [&] {
          check_outlier_sources(config_of({first, second}));
        },
        {"data.outliers", "names " + second + " twice: " + first + " has the same images"});
  };
  refused("world:outliers:300", "world:outliers:300:0");
  refused("world:outliers", "world:outliers:20000");
  refused("world:outliers:300", "world:outliers:400");
  refused("world2d:outliers:30:2", "world2d:outliers:40:2");
  for (const char* other : {"world:outliers:300:1", "world:procedural:300", "world2d:outliers:300"})
    check_outlier_sources(config_of({"world:outliers:300", other}));
}

TEST(OutlierSources, AShareIsForOutliersOnly) {
  expect_error([] { read_images("world:train:40#share=0.5"); }, {"#share is only for data.outliers"});
  expect_error([] { check_source("world:train:40#count=9#share=0.5"); },
               {"#share is only for data.outliers"});
  TemporaryFolder folder;  // a path that exists is a path
  std::filesystem::create_directory(folder / "a#share=2");
  EXPECT_FALSE(split_share(folder / "a#share=2", "").share);
  const SharedSource split = split_share("photos#count=3#share=0.25#seed=4", "");
  EXPECT_EQ(split.text, "photos#count=3#seed=4");
  EXPECT_EQ(split.share, 0.25);
}

TEST(Outliers, AreReadAsOneMixture) {
  TemporaryFolder folder;
  pack_images("world:outliers:20:9", folder / "large.poem", {64});
  Config config = config_of({folder / "large.poem#share=0.3", "world:outliers:500", "world:digits:100"});
  const Mixture outliers = load_training_data(config).outliers;
  ASSERT_EQ(outliers.parts().size(), 3u);
  EXPECT_EQ(outliers.size(), 620);
  EXPECT_EQ(outliers.parts()[0].images.name, folder / "large.poem");
  EXPECT_EQ(outliers.parts()[0].images.height(), 64);
  EXPECT_FALSE(outliers.parts()[0].lazy);
  EXPECT_TRUE(outliers.parts()[1].lazy);
  EXPECT_LE(outliers.parts()[1].lazy->made(), 1);  // the one that was tried out
  EXPECT_NEAR(outliers.parts()[0].share, 0.3, 1e-12);
  EXPECT_NEAR(outliers.parts()[1].share, 0.7 * 500 / 600, 1e-12);
  config.outliers.fit = OutlierFit::kResize;
  config.data.size = 16;
  EXPECT_EQ(load_training_data(config).outliers.parts()[1].images.height(), 16);
}

TEST(Outliers, ThatDoNotFitAreNamed) {
  expect_error(
      [] {
        load_training_data(config_of({"world:outliers:50", "world2d:outliers:50"}));
      },
      {"world2d:outliers:50", "2 channels", "takes 3"});
  Config config = config_of({"world:outliers:50", "world:digits:1000000"});
  expect_error([&] { load_training_data(config); },
               {"data.outliers", "world:outliers:50 gets none of the 100", "raise its #share"});
  config.data.size = 64;
  expect_error([&] { load_training_data(config); }, {"world:outliers:50", "too small for crops of 64"});
}

TEST(Outliers, WarningsNameTheSourceThatTheyConcern) {
  TemporaryFolder folder;
  pack_images("world:outliers:20", folder / "small.poem", {20});
  pack_images("world:outliers:20", folder / "large.poem", {64});
  const auto logged = [](const Config& config) {
    const Log log;
    load_training_data(config);
    return log.text();
  };
  const auto has = [](const std::string& log, const std::string& words) {
    return log.find(words) != std::string::npos;
  };
  Config config = config_of({folder / "small.poem", folder / "large.poem"});
  config.outliers.padding = 8;
  std::string log = logged(config);
  EXPECT_TRUE(has(log, folder / "small.poem: the outliers have 20 pixels"));
  EXPECT_FALSE(has(log, folder / "large.poem: the outliers have"));
  config.outliers.fit = OutlierFit::kResize;
  config.outliers.filters = {"lanczos"};
  log = logged(config);
  EXPECT_TRUE(
      has(log, folder / "small.poem: of outliers.filters lanczos has no effect, because no image is larger"));
  EXPECT_FALSE(has(log, folder / "large.poem: of outliers.filters"));
  // gaussian acts on every image, the others only on what becomes smaller: an array is read at data.size.
  write_npy(folder / "array.npy", at::zeros({20, 64, 48, 3}, at::kByte));
  config.data.outliers = {folder / "array.npy", folder / "large.poem"};
  config.outliers.filters = {"piece", "area", "gaussian", "nearest"};
  log = logged(config);
  EXPECT_TRUE(has(log, folder / "array.npy: of outliers.filters nearest and piece have no effect")) << log;
  EXPECT_FALSE(has(log, folder / "large.poem: of outliers.filters"));
  // Beside other sources a drawn world needs no warning.
  config.data.outliers = {"world:outliers:50", folder / "large.poem"};
  EXPECT_FALSE(has(logged(config), "no effect"));
  config.data.outliers = {"world:outliers:50"};
  EXPECT_TRUE(has(logged(config), "no effect"));
  config.data.outliers = {folder / "large.poem"};
  config.outliers.fit = OutlierFit::kCrop;
  EXPECT_TRUE(has(logged(config), "nearest and piece have no effect, because the outliers are not resized"));
  config.outliers.filters = {"area", "gaussian"};
  EXPECT_FALSE(has(logged(config), "no effect"));
}

// Crops of single files, in all ways in which the listed filters draw them, without moves.
struct FilteredFiles {
  TemporaryFolder folder;
  std::string log;

  // Of files of 3×side×side; the originals, and the crops by file.
  std::vector<std::vector<at::Tensor>> crops(const std::vector<int64_t>& sides,
                                             const std::vector<std::string>& filters) {
    std::filesystem::remove_all(folder / "photos");
    std::filesystem::create_directory(folder / "photos");
    for (size_t i = 0; i < sides.size(); ++i)
      folder.put("photos/" + std::to_string(i) + ".png",
                 encode_png(random_bytes({sides[i], sides[i], 3}, i)));
    Config config = config_of({folder / "photos"});
    config.outliers.fit = OutlierFit::kResize;
    config.outliers.filters = filters;
    config.outliers.padding = 0;
    config.outliers.flip = false;
    const Log logged;
    const TrainingData data = load_training_data(config);
    log = logged.text();
    std::vector<std::vector<at::Tensor>> crops(sides.size());
    for (size_t i = 0; i < sides.size(); ++i) {
      for (uint64_t seed = 0; seed < 40; ++seed) {
        const Crop crop{static_cast<int64_t>(i), seed};
        crops[i].push_back(cut(data.outliers, &crop, 1, data.outlier_cut));
      }
    }
    return crops;
  }
  bool stays(size_t file, const std::vector<at::Tensor>& crops) const {
    ReadOptions options;
    options.size = 32;
    const at::Tensor plain =
        read_images(folder / ("photos/" + std::to_string(file) + ".png"), options).pixels;
    return std::all_of(crops.begin(), crops.end(), [&](const at::Tensor& crop) { return crop.equal(plain); });
  }
};

// A file of less than twice data.size has too few pixels to choose from: it becomes what it becomes as an ID
// image. In one folder with larger ones, too.
TEST(Outliers, FiltersActOnLargeFilesOnly) {
  FilteredFiles files;
  const std::vector<std::string> shrinking = {"area", "triangle", "bicubic", "lanczos", "nearest", "piece"};
  const auto crops = files.crops({32, 64, 20, 48, 63, 100}, shrinking);
  for (const size_t file : {0, 2, 3, 4}) EXPECT_TRUE(files.stays(file, crops[file])) << file;
  for (const size_t file : {1, 5}) EXPECT_FALSE(files.stays(file, crops[file])) << file;
  EXPECT_EQ(files.log.find("no effect"), std::string::npos) << files.log;
  const auto small = files.crops({32, 20, 63}, shrinking);
  for (size_t file = 0; file < 3; ++file) EXPECT_TRUE(files.stays(file, small[file])) << file;
  EXPECT_NE(files.log.find("triangle, bicubic, lanczos, nearest and piece have no effect"), std::string::npos)
      << files.log;
  EXPECT_FALSE(files.stays(0, files.crops({32}, {"gaussian"})[0]));  // it blurs images of any size
}

// At most what all epochs' pools draw, and at most all images.
TEST(Outliers, MemoryOfDrawnImagesIsForeseen) {
  const auto lazy = std::make_shared<LazyImages>("huge", std::vector<int64_t>{100000000, 3, 200, 200},
                                                 std::vector<std::string>{}, nullptr);  // 11 TiB
  const Mixture outliers({{lazy->images(), 1, lazy}});
  Config config = config_of({});
  config.mining.pool = 1000;
  config.train.epochs = 2;
  check_drawing_memory(config, outliers);  // 2,000 images
  config.mining.pool = 100000000;
  config.train.epochs = 1000;
  expect_error([&] { check_drawing_memory(config, outliers); },
               {"data.outliers", "100000000 images of huge", "11175.9 GiB", "use fewer"});
  config.mining.pool = 1000;
  config.mining.until = 2;
  check_drawing_memory(config, outliers);
}

}  // namespace
}  // namespace poem
