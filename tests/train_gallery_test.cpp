#include "train/gallery.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "encode_images.h"
#include "readers/decode.h"
#include "temporary_folder.h"
#include "world/world.h"

namespace poem {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct ReadSheet {
  ReadSheet(const TemporaryFolder& folder, const std::string& name)
      : pixels(decode_image(name, read_file(folder / "gallery/" + name + ".png"))),
        list(json::parse(read_file(folder / "gallery/" + name + ".json"))) {}

  at::Tensor tile(int64_t i) const {
    const int64_t side = list["tile"], columns = list["columns"];
    return pixels.narrow(1, i / columns * side, side).narrow(2, i % columns * side, side);
  }
  at::Tensor pixels;
  json list;
};

TrainingData outliers(int64_t count, int64_t size) {
  TrainingData data;
  data.outliers = draw_world("outliers", count, 1);
  data.outlier_cut = {size, 4};
  return data;
}

TEST(Gallery, ShowsMinedCropsAsTheNetworkSawThem) {
  TemporaryFolder folder;
  const TrainingData data = outliers(100, 24);
  std::vector<Crop> mined;
  for (int64_t i = 0; i < 48; ++i) mined.push_back({99 - i, static_cast<uint64_t>(i)});
  write_mined_sheet(folder / "gallery", 7, mined, data);
  const ReadSheet sheet(folder, "mined-0007");
  ASSERT_EQ(sheet.list["tiles"].size(), 24u);
  EXPECT_EQ(sheet.pixels.sizes(), at::IntArrayRef({3, 3 * 24, 8 * 24}));
  for (int64_t i = 0; i < 24; ++i) {
    const Crop& crop = mined[2 * i];  // every second of them
    EXPECT_TRUE(at::equal(sheet.tile(i), cut(data.outliers, &crop, 1, data.outlier_cut)[0]));
    EXPECT_EQ(sheet.list["tiles"][i]["index"], crop.image);
    const ImageSet& images = data.outliers.parts()[0].images;
    const int64_t label = images.labels[crop.image].item<int64_t>();
    EXPECT_EQ(sheet.list["tiles"][i]["class"], images.class_names[label]);
    EXPECT_FALSE(sheet.list["tiles"][i].contains("source"));  // there is only one
  }
}

TEST(Gallery, TakesFewerAndLargerImagesAndGreyOnes) {
  TemporaryFolder folder;
  TrainingData data;
  data.outliers = ImageSet{"large", random_bytes({3, 1, 200, 200}, 1), {}, {}};
  data.outlier_cut = plain(100);
  write_mined_sheet(folder / "gallery", 1, {{0, 0}, {2, 0}, {1, 0}}, data);
  const ReadSheet sheet(folder, "mined-0001");
  EXPECT_EQ(sheet.list["tile"], 64);
  EXPECT_EQ(sheet.list["tiles"], json::parse(R"([{"index":0},{"index":2},{"index":1}])"));
  EXPECT_EQ(sheet.tile(3).max().item<int64_t>(), 0);
}

TEST(Gallery, NamesTheSourceOfAMinedOutlierIfThereAreSeveral) {
  TemporaryFolder folder;
  TrainingData data;
  ImageSet photos{"photos", random_bytes({3, 3, 40, 40}, 1), {}, {}};
  for (const char* name : {"a.png", "b.png", "c.png"}) photos.names.add(name);
  const ImageSet drawn = draw_world("outliers", 10, 1);
  data.outliers = Mixture({{photos, 0.5}, {drawn, 0.5}});
  data.outlier_cut = plain(32);
  write_mined_sheet(folder / "gallery", 1, {{4, 0}, {2, 0}}, data);
  const ReadSheet sheet(folder, "mined-0001");
  const std::string family = drawn.class_names[drawn.labels[1].item<int64_t>()];
  EXPECT_EQ(sheet.list["tiles"], json::parse(R"([{"index":1,"source":"world:outliers","class":")" + family +
                                             R"("},{"index":2,"source":"photos","name":"c.png"}])"));
  const Crop crops[] = {{1, 0}, {2, 0}};
  EXPECT_TRUE(at::equal(sheet.tile(0), cut(drawn, &crops[0], 1, plain(32))[0]));
  EXPECT_TRUE(at::equal(sheet.tile(1), cut(photos, &crops[1], 1, plain(32))[0]));
}

TEST(Gallery, PointsHaveNone) {
  TemporaryFolder folder;
  TrainingData data;
  data.outliers = draw_world_2d("outliers", 10, 0);
  write_mined_sheet(folder / "gallery", 1, {{0, 0}}, data);
  EXPECT_FALSE(fs::exists(folder / "gallery"));
}

// Ten ID images with scores 0 … 9 and four OOD images with 2.5, 11, 10 and 4; the threshold is 4.
class TestSheets : public testing::Test {
 protected:
  TestSheets() {
    detector_.class_names = {"even", "odd"};
    detector_.threshold = 4;
    test_.id = draw_world("train", 10, 1);
    test_.id.class_names = {"even", "odd"};
    test_.id.labels = at::arange(10).remainder(2);
    test_.ood = {{"digits", draw_world("digits", 4, 1)}};
    ScoredSet id{"id", {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}, at::zeros({10}, at::kLong)};  // all are called even
    ScoredSet ood{"digits", {{2.5, 11, 10, 4}}, at::ones({4}, at::kLong)};
    sets_ = {id, ood};
  }

  // "set index" of every tile of the sheet.
  std::vector<std::string> shown(const std::string& name) const {
    std::vector<std::string> tiles;
    const ReadSheet sheet(folder_, name);
    for (const json& tile : sheet.list["tiles"])
      tiles.push_back(tile["set"].get<std::string>() + " " + tile["index"].dump());
    return tiles;
  }

  TemporaryFolder folder_;
  Detector detector_;
  TestData test_;
  std::vector<ScoredSet> sets_;
};

using Tiles = std::vector<std::string>;

TEST_F(TestSheets, ShowTheMostConfidentMistakesFirst) {
  write_test_sheets(folder_ / "gallery", detector_, test_, sets_);
  EXPECT_EQ(shown("ood-as-id"), (Tiles{"digits 1", "digits 2", "digits 3"}));
  EXPECT_EQ(shown("id-as-ood"), (Tiles{"id 0", "id 1", "id 2", "id 3"}));
  EXPECT_EQ(shown("misclassified"), (Tiles{"id 9", "id 7", "id 5", "id 3", "id 1"}));
  const Tiles near = shown("near-threshold");
  EXPECT_EQ(near.size(), 14u);
  EXPECT_EQ(Tiles(near.begin(), near.begin() + 5), (Tiles{"id 4", "digits 3", "id 3", "id 5", "digits 0"}));
  const ReadSheet sheet(folder_, "ood-as-id");
  EXPECT_TRUE(at::equal(sheet.tile(0), test_.ood[0].images.pixels[1]));
  EXPECT_EQ(sheet.list["tiles"][0],
            json::parse(R"({"set":"digits","index":1,"score":11.0,"predicted":"odd"})"));
  EXPECT_EQ(ReadSheet(folder_, "id-as-ood").list["tiles"][1]["class"], "odd");
}

TEST_F(TestSheets, NameTheFilesOfImages) {
  for (int64_t i = 0; i < 4; ++i) test_.ood[0].images.names.add("street/" + std::to_string(i) + "\xff.png");
  write_test_sheets(folder_ / "gallery", detector_, test_, sets_);
  EXPECT_EQ(ReadSheet(folder_, "ood-as-id").list["tiles"][0]["name"], "street/1\uFFFD.png");
  EXPECT_FALSE(ReadSheet(folder_, "id-as-ood").list["tiles"][0].contains("name"));

  TrainingData data = outliers(3, 24);
  ImageSet named = data.outliers.parts()[0].images;
  for (const char* name : {"a.png", "b.png", "c.png"}) named.names.add(name);
  data.outliers = named;
  write_mined_sheet(folder_ / "gallery", 1, {{2, 0}, {0, 0}}, data);
  const ReadSheet mined(folder_, "mined-0001");
  EXPECT_EQ(mined.list["tiles"][0]["name"], "c.png");
  EXPECT_EQ(mined.list["tiles"][1]["name"], "a.png");
}

TEST_F(TestSheets, WithoutLabelsOrClassesShowWhatIsKnown) {
  test_.id.labels = at::Tensor();
  sets_[0].predicted = sets_[1].predicted = at::Tensor();
  detector_.threshold.reset();  // then 95 % of the ID images are kept: all ten
  write_test_sheets(folder_ / "gallery", detector_, test_, sets_);
  EXPECT_FALSE(fs::exists(folder_ / "gallery/misclassified.png"));
  EXPECT_FALSE(fs::exists(folder_ / "gallery/id-as-ood.png"));
  EXPECT_EQ(shown("ood-as-id").size(), 4u);
  EXPECT_FALSE(ReadSheet(folder_, "ood-as-id").list["tiles"][0].contains("predicted"));
}

}  // namespace
}  // namespace poem
