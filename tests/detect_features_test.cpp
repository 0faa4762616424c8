#include "detect/features.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "core/array_file.h"
#include "core/npy.h"
#include "expect_error.h"
#include "temporary_folder.h"
#include "world/world.h"

namespace poem {
namespace {

class WriteFeatures : public ::testing::Test {
 protected:
  WriteFeatures() {
    NetworkSpec spec;
    spec.name = "wideresnet";
    spec.depth = 10;
    spec.classes = 9;  // one more than there are classes
    detector.network = make_network(spec, 3);
    detector.score = make_score("energy");
    detector.class_names = images.class_names;
  }
  std::map<std::string, at::Tensor> written() {
    write_features(folder / "f.npz", detector, images);
    return read_npz(folder / "f.npz");
  }
  TemporaryFolder folder;
  ImageSet images = draw_world("test", 20, 1);
  Detector detector;
};

TEST_F(WriteFeatures, AreWhatTheNetworkComputes) {
  const auto arrays = written();
  const at::NoGradGuard no_grad;
  detector.network->train(false);
  const at::Tensor features = detector.network->features(images.pixels);
  EXPECT_TRUE(at::allclose(arrays.at("features"), features));
  EXPECT_TRUE(at::allclose(arrays.at("logits"), detector.network->logits(features).narrow(1, 0, 8)));
  EXPECT_TRUE(arrays.at("labels").equal(images.labels));
  // The last layer, of the classes alone, makes the logits of the features.
  EXPECT_TRUE(at::allclose(at::linear(arrays.at("features"), arrays.at("weight"), arrays.at("bias")),
                           arrays.at("logits"), 1e-4, 1e-5));
}

TEST_F(WriteFeatures, LabelsAreThoseOfTheDetector) {
  std::reverse(images.class_names.begin(), images.class_names.end());
  EXPECT_TRUE(written().at("labels").equal(7 - images.labels));
  images.class_names[0] = "unheard of";
  EXPECT_EQ(written().count("labels"), 0u);
  images.labels.reset();
  EXPECT_EQ(written().count("labels"), 0u);
}

TEST_F(WriteFeatures, NamesArePaddedRowsOfBytes) {
  EXPECT_EQ(written().count("names"), 0u);
  for (int64_t i = 0; i < 20; ++i) images.names.add("cat/" + std::string(i, 'x') + ".png");
  const at::Tensor names = written().at("names");
  ASSERT_EQ(names.sizes(), at::IntArrayRef({20, 27}));
  for (int64_t i = 0; i < 20; ++i) {
    const std::string row(reinterpret_cast<char*>(names.data_ptr<uint8_t>()) + 27 * i, 27);
    EXPECT_EQ(row, images.title(i) + std::string(19 - i, '\0'));
  }
}

TEST_F(WriteFeatures, ImagesThatDoNotFitAreAnError) {
  images.pixels = images.pixels.narrow(1, 0, 1).contiguous();
  expect_error([&] { written(); }, {"1 channels", "takes 3"});
  EXPECT_FALSE(std::filesystem::exists(folder / "f.npz"));
}

TEST(ReadArray, TakesTheArrayOfTheNameOrTheOnlyOne) {
  TemporaryFolder folder;
  const at::Tensor a = at::arange(3, at::kFloat), b = at::arange(4, at::kFloat);
  write_npy(folder / "x.npy", a);
  write_npz(folder / "x.npz", {{"a", a}, {"b", b}});
  EXPECT_TRUE(read_array(folder / "x.npy", "b").equal(a));
  EXPECT_TRUE(read_array(folder / "x.npz", "b").equal(b));
  expect_error([&] { read_array(folder / "x.npz", "c"); }, {"x.npz", "no array 'c'", "a and b"});
}

}  // namespace
}  // namespace poem
