#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/file.h"
#include "core/npy.h"
#include "encode_images.h"
#include "expect_error.h"
#include "poem/read.h"
#include "temporary_folder.h"
#include "write_mat.h"

namespace poem {
namespace {

class Arrays : public ::testing::Test {
 protected:
  std::function<void()> reading(const std::string& name) {
    return [path = folder / name] { read_images(path); };
  }
  TemporaryFolder folder;
  at::Tensor images = random_bytes({5, 3, 6, 4}, 1);
};

TEST_F(Arrays, NpyOfEveryLayout) {
  write_npy(folder / "first.npy", images);
  write_npy(folder / "last.npy", images.permute({0, 2, 3, 1}));
  write_npy(folder / "grey.npy", images.select(1, 0));
  write_npy(folder / "grey_last.npy", images.select(1, 0).unsqueeze(3));
  EXPECT_TRUE(read_images(folder / "first.npy").pixels.equal(images));
  EXPECT_TRUE(read_images(folder / "last.npy").pixels.equal(images));
  EXPECT_TRUE(read_images(folder / "grey.npy").pixels.equal(images.narrow(1, 0, 1)));
  EXPECT_TRUE(read_images(folder / "grey_last.npy").pixels.equal(images.narrow(1, 0, 1)));
  EXPECT_FALSE(read_images(folder / "first.npy").labelled());
}

TEST_F(Arrays, NpyLabelsLieBesideTheFile) {
  const at::Tensor labels = at::tensor({2, 0, 1, 2, 2}, at::kInt);
  for (const char* name : {"a_labels.npy", "a.labels.npy"}) {
    write_npy(folder / "a.npy", images);
    write_npy(folder / name, labels.view({5, 1}));
    const ImageSet set = read_images(folder / "a.npy");
    EXPECT_TRUE(set.labels.equal(labels.to(at::kLong)));
    EXPECT_EQ(set.class_names, (std::vector<std::string>{"0", "1", "2"}));
    std::filesystem::remove(folder / name);
  }
}

TEST_F(Arrays, NpyRefusesWhatIsNotImages) {
  write_npy(folder / "float.npy", at::rand({2, 3, 4, 4}));
  expect_error(reading("float.npy"), {"float.npy", "type float32", "uint8"});
  write_npy(folder / "flat.npy", random_bytes({4, 12}, 1));
  expect_error(reading("flat.npy"), {"flat.npy", "4×12", "N×C×H×W"});
  write_npy(folder / "five.npy", random_bytes({2, 5, 4, 4}, 1));
  expect_error(reading("five.npy"), {"five.npy", "2×5×4×4"});
  write_npy(folder / "none.npy", at::empty({0, 3, 4, 4}, at::kByte));
  expect_error(reading("none.npy"), {"none.npy", "contains no images"});
  write_file(folder / "text.npy", "some text that is no array");
  expect_error(reading("text.npy"), {"text.npy", "not a npy array"});
  write_file(folder / "empty.npy", "");
  expect_error(reading("empty.npy"), {"empty.npy", "is empty"});
}

TEST_F(Arrays, NpyRefusesBadLabels) {
  write_npy(folder / "a.npy", images);
  write_npy(folder / "a_labels.npy", at::tensor({0, 1, -1, 0, 0}, at::kLong));
  expect_error(reading("a.npy"), {"a_labels.npy", "image 2 has label -1"});
  write_npy(folder / "a_labels.npy", at::zeros({4}, at::kLong));
  expect_error(reading("a.npy"), {"a_labels.npy", "4 labels for 5 images"});
  write_npy(folder / "a_labels.npy", at::zeros({5}));
  expect_error(reading("a.npy"), {"a_labels.npy", "type float32"});
}

TEST_F(Arrays, NpzUnderEachName) {
  for (const char* name : {"images", "x", "data"}) {
    write_npz(folder / "a.npz", {{name, images}, {"other", at::zeros({3})}});
    EXPECT_TRUE(read_images(folder / "a.npz").pixels.equal(images)) << name;
  }
  for (const char* name : {"labels", "y"}) {
    write_npz(folder / "a.npz", {{"x", images}, {name, at::tensor({0, 3, 1, 1, 0}, at::kByte)}});
    const ImageSet set = read_images(folder / "a.npz");
    EXPECT_TRUE(set.labels.equal(at::tensor({0, 3, 1, 1, 0}, at::kLong)));
    EXPECT_EQ(set.class_names.size(), 4u);
  }
  write_npz(folder / "a.npz", {{"pictures", images}});
  expect_error(reading("a.npz"), {"a.npz", "images, x, data"});
  write_file(folder / "a.npz", "PK and no more");
  expect_error(reading("a.npz"), {"a.npz", "zip"});
}

TEST_F(Arrays, APartIsThatOfThePackedFile) {
  const at::Tensor many = random_bytes({300, 3, 4, 4}, 3), labels = at::arange(300).remainder(7);
  write_npz(folder / "a.npz", {{"images", many}, {"labels", labels}});
  write_npy(folder / "b.npy", many.permute({0, 2, 3, 1}));
  write_npy(folder / "b_labels.npy", labels);
  pack_images(folder / "a.npz", folder / "a.poem", {});
  write_npy(folder / "out.npy", at::arange(0, 300, 2));
  for (const std::string& part : std::vector<std::string>{"", "#count=20", "#per_class=3", "#count=5#seed=4",
                                                          "#exclude=" + (folder / "out.npy")}) {
    const ImageSet want = read_images(folder / "a.poem" + part);
    for (const char* name : {"a.npz", "b.npy"}) {
      const ImageSet got = read_images(folder / name + part);
      ASSERT_EQ(got.size(), want.size()) << name << part;
      for (int64_t i = 0; i < got.size(); ++i)
        EXPECT_TRUE(got.pixels[got.row(i)].equal(want.pixels[want.row(i)])) << name << part;
      EXPECT_TRUE(got.labels.equal(want.labels)) << name << part;
      EXPECT_EQ(got.class_names, want.class_names);
    }
  }
}

TEST_F(Arrays, AnOutlineHasAllButThePixels) {
  const at::Tensor many = random_bytes({40, 3, 6, 8}, 3), labels = at::arange(40).remainder(3);
  write_npz(folder / "a.npz", {{"images", many}, {"labels", labels}});
  write_npy(folder / "b.npy", many);
  for (int i = 0; i < 5; ++i)
    folder.put(fmt::format("photos/{}/{}.png", i % 2 ? "cat" : "dog", i),
               encode_png(many[i].permute({1, 2, 0})));
  pack_images(folder / "a.npz", folder / "a.poem", {});
  for (const char* name : {"a.npz", "b.npy", "photos", "a.poem"}) {
    for (const char* part : {"", "#count=4", "#count=4#seed=2"}) {
      for (const int64_t size : {0, 5}) {
        const ImageSet want = read_images(folder / name + part, {size}),
                       got = outline_images(folder / name + part, {size});
        EXPECT_EQ(got.size(), want.size()) << name << part << size;
        EXPECT_EQ(got.pixels.sizes().slice(1), want.pixels.sizes().slice(1)) << name << part << size;
        EXPECT_EQ(got.class_names, want.class_names);
        ASSERT_EQ(got.labelled(), want.labelled());
        if (want.labelled()) {
          EXPECT_TRUE(got.labels.equal(want.labels)) << name << part << size;
        }
      }
    }
  }
  write_npy(folder / "none.npy", many.narrow(0, 0, 0));
  expect_error([&] { outline_images(folder / "none.npy"); }, {"none.npy", "contains no images"});
  expect_error([&] { outline_images(folder / "a.npz#count=41"); }, {"40 images", "41"});
}

TEST_F(Arrays, DownsampledImageNetIsOneSourceOfManyBatches) {
  std::vector<at::Tensor> parts;
  for (const int batch : {1, 2, 10}) {  // 10 sorts before 2 as text
    parts.push_back(random_bytes({3, 3, 8, 8}, batch));
    write_npz(folder / ("train_data_batch_" + std::to_string(batch) + ".npz"),
              {{"data", parts.back().view({3, 192})}, {"labels", at::tensor({1, 1000, batch}, at::kLong)}});
  }
  write_npz(folder / "val_data.npz", {{"data", parts[0].view({3, 192})}});
  const ImageSet set = read_images(folder.path());
  EXPECT_TRUE(set.pixels.equal(at::cat(parts)));
  EXPECT_TRUE(set.labels.equal(at::tensor({0, 999, 0, 0, 999, 1, 0, 999, 9}, at::kLong)));
  ASSERT_EQ(set.class_names.size(), 1000u);
  EXPECT_EQ(set.class_names[999], "1000");
  EXPECT_FALSE(read_images(folder / "val_data.npz").labelled());
}

TEST_F(Arrays, DownsampledImageNetRefusesWhatDoesNotFit) {
  const at::Tensor data = random_bytes({2, 192}, 1);
  const auto write = [&](const at::Tensor& rows, const at::Tensor& labels) {
    write_npz(folder / "train_data_batch_2.npz", {{"data", rows}, {"labels", labels}});
  };
  write_npz(folder / "train_data_batch_1.npz", {{"data", data}, {"labels", at::tensor({1, 2}, at::kLong)}});
  write(data, at::tensor({1, 0}, at::kLong));
  expect_error(reading(""), {"train_data_batch_2.npz", "label 0", "1 to 1000"});
  write(data, at::tensor({1001, 1}, at::kLong));
  expect_error(reading(""), {"train_data_batch_2.npz", "label 1001"});
  write(random_bytes({2, 190}, 1), at::tensor({1, 1}, at::kLong));
  expect_error(reading(""), {"train_data_batch_2.npz", "rows of 190"});
  write(random_bytes({2, 48}, 1), at::tensor({1, 1}, at::kLong));
  expect_error(reading(""), {"3×8×8", "3×4×4", "option size"});
  expect_error([&] { outline_images(folder.path()); }, {"3×8×8", "3×4×4", "option size"});
  write_npz(folder / "train_data_batch_2.npz", {{"data", data}});
  expect_error(reading(""), {"train_data_batch_2.npz", "labels"});
}

// ---- sprite sheets --------------------------------------------------------------------------------------

// One image a row, pixels in raster order.
std::string sheet(const at::Tensor& images) { return encode_png(images.flatten(2).transpose(1, 2)); }

TEST_F(Arrays, SpritesOfAFolderOrOneSheet) {
  const at::Tensor all = random_bytes({6, 3, 32, 32}, 4), test = random_bytes({3, 3, 32, 32}, 5);
  for (int i = 0; i < 3; ++i)
    write_file(folder / fmt::format("data_batch_{}.png", i + 1), sheet(all.narrow(0, 2 * i, 2)));
  write_file(folder / "test_batch.png", sheet(test));
  EXPECT_FALSE(read_images(folder.path()).labelled());
  write_file(folder / "train_lables.json", "[0,1,2,3,4,9]");
  write_file(folder / "test_labels.json", "[7, 8, 9]");

  const ImageSet train = read_images(folder.path());
  EXPECT_TRUE(train.pixels.equal(all));
  EXPECT_TRUE(train.labels.equal(at::tensor({0, 1, 2, 3, 4, 9}, at::kLong)));
  const ImageSet third = read_images(folder / "data_batch_3.png");
  EXPECT_TRUE(third.pixels.equal(all.narrow(0, 4, 2)));
  EXPECT_TRUE(third.labels.equal(at::tensor({4, 9}, at::kLong)));
  EXPECT_EQ(third.class_names.size(), 10u);
  const ImageSet tested = read_images(folder / "test_batch.png");
  EXPECT_TRUE(tested.pixels.equal(test));
  EXPECT_TRUE(tested.labels.equal(at::tensor({7, 8, 9}, at::kLong)));
}

TEST_F(Arrays, SpritesRefuseWhatDoesNotFit) {
  const at::Tensor two = random_bytes({2, 3, 32, 32}, 4);
  write_file(folder / "test_batch.png", sheet(two));
  write_file(folder / "test_lables.json", "[1]");
  expect_error(reading("test_batch.png"), {"test_batch.png", "2 images", "labels has 1"});
  write_file(folder / "test_lables.json", "[1, 10]");
  expect_error(reading("test_batch.png"), {"test_lables.json", "label 10"});
  write_file(folder / "test_lables.json", "{\"a\": 1}");
  expect_error(reading("test_batch.png"), {"test_lables.json", "JSON list"});
  write_file(folder / "test_batch.png", encode_png(random_bytes({5, 7, 3}, 1)));
  write_file(folder / "test_lables.json", "[1]");
  expect_error(reading("test_batch.png"), {"5×7", "1024", "rename"});
  write_file(folder / "test_batch.png", sheet(two).substr(0, 900));
  expect_error(reading("test_batch.png"), {"test_batch.png", "cannot be decoded"});
}

// ---- SVHN -----------------------------------------------------------------------------------------------

#ifdef POEM_HAS_MATIO

TEST_F(Arrays, MatReadsImagesAndTurnsTenIntoZero) {
  const at::Tensor digits = random_bytes({4, 3, 32, 32}, 6);
  for (const auto type : {at::kByte, at::kDouble}) {
    for (const auto compression : {MAT_COMPRESSION_NONE, MAT_COMPRESSION_ZLIB}) {
      Mat{folder / "a.mat", compression}.write(digits, at::tensor({10, 1, 9, 5}, type));
      const ImageSet set = read_images(folder / "a.mat");
      EXPECT_TRUE(set.pixels.equal(digits));
      EXPECT_TRUE(set.labels.equal(at::tensor({0, 1, 9, 5}, at::kLong)));
      EXPECT_EQ(set.class_names.size(), 10u);
    }
  }
}

TEST_F(Arrays, MatRefusesWhatDoesNotFit) {
  const at::Tensor digits = random_bytes({4, 3, 32, 32}, 6);
  const Mat mat{folder / "a.mat"};
  mat.write(digits, at::tensor({10, 0, 9, 5}, at::kByte));
  expect_error(reading("a.mat"), {"a.mat", "image 1 has label 0", "1 to 10"});
  mat.write(digits, at::tensor({10., 1., 9.5, 5.}, at::kDouble));
  expect_error(reading("a.mat"), {"a.mat", "image 2 has label 9.5", "whole numbers"});
  mat.write(digits, at::tensor({10., NAN, 9., 5.}, at::kDouble));
  expect_error(reading("a.mat"), {"a.mat", "image 1 has label nan"});
  mat.write(digits, at::tensor({10, 1, 9}, at::kByte));
  expect_error(reading("a.mat"), {"a.mat", "4 images", "3 labels"});
  mat.write(random_bytes({4, 1, 32, 32}, 1), at::tensor({1, 1, 1, 1}, at::kByte));
  expect_error(reading("a.mat"), {"a.mat", "32×32×3×N"});
  write_file(folder / "a.mat", "");
  expect_error(reading("a.mat"), {"a.mat"});
  write_file(folder / "a.mat", std::string(5000, 'x'));
  expect_error(reading("a.mat"), {"a.mat"});
}

TEST_F(Arrays, MatRefusesEveryTruncation) {
  for (const auto compression : {MAT_COMPRESSION_NONE, MAT_COMPRESSION_ZLIB}) {
    Mat{folder / "good.mat", compression}.write(random_bytes({4, 3, 32, 32}, 6),
                                                at::tensor({10, 1, 9, 5}, at::kByte));
    const std::string good = read_file(folder / "good.mat");
    for (size_t size = 1; size < good.size(); size += 501) {
      folder.put("a.mat", good.substr(0, size));
      expect_error(reading("a.mat"), {"a.mat"});
    }
    folder.put("a.mat", good.substr(0, good.size() - 1));
    expect_error(reading("a.mat"), {"a.mat", "truncated"});
  }
}

#endif

}  // namespace
}  // namespace poem
