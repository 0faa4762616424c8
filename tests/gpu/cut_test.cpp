// Crops cut on the GPU are those cut on the CPU, byte for byte.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "images/device_images.h"
#include "poem/random.h"
#include "readers/world_source.h"

namespace poem {
namespace {

const at::Device kGpu(at::kCUDA, 0);

ImageSet random_images(int64_t count, int64_t channels, int64_t height, int64_t width) {
  at::manual_seed(1);
  return {"random", at::randint(0, 256, {count, channels, height, width}, at::kByte), {}, {}};
}

std::vector<Crop> random_crops(int64_t count, int64_t images) {
  Stream stream(2, "test");
  std::vector<Crop> crops;
  for (int64_t i = 0; i < count; ++i)
    crops.push_back({static_cast<int64_t>(stream.below(images)), stream.bits64()});
  return crops;
}

void expect_same(const ImageSet& images, const Augmentation& augmentation) {
  const auto crops = random_crops(300, images.size());
  const at::Tensor expected = cut(images, crops.data(), 300, augmentation);
  for (const auto place : {ImagePlace::kAuto, ImagePlace::kStream}) {
    const at::Tensor got = DeviceImages(images, kGpu, place).cut(crops.data(), 300, augmentation);
    EXPECT_TRUE(got.is_cuda());
    EXPECT_TRUE(got.cpu().equal(expected));
  }
}

TEST(DeviceCut, CropsAndFlips) {
  expect_same(random_images(20, 3, 64, 64), Augmentation{});
  expect_same(random_images(20, 3, 32, 32), Augmentation{});
  expect_same(random_images(20, 1, 40, 33), Augmentation{});
}

TEST(DeviceCut, Resizes) {
  Augmentation a;
  a.resize = true;
  expect_same(random_images(20, 3, 64, 64), a);
  expect_same(random_images(20, 3, 50, 71), a);
  expect_same(random_images(20, 3, 32, 32), a);
  expect_same(random_images(20, 3, 96, 48), plain(32));
}

TEST(DeviceCut, DrawsFilters) {
  Augmentation a;
  a.resize = true;
  a.filters = {Filter::kArea,     Filter::kTriangle, Filter::kBicubic, Filter::kLanczos,
               Filter::kGaussian, Filter::kNearest,  Filter::kPiece};
  expect_same(random_images(20, 3, 64, 64), a);
  expect_same(random_images(20, 3, 50, 71), a);
  expect_same(random_images(20, 1, 32, 32), a);  // not shrunk: only blurred
  a.resize = false;
  expect_same(random_images(20, 3, 40, 40), a);
}

// Several buffers full a call, and the next call while the GPU still works on the last: a buffer that was
// filled again too early would show.
TEST(DeviceCut, StreamsThroughTwoBuffers) {
  const ImageSet images = random_images(6000, 3, 64, 64);
  const DeviceImages streamed(images, kGpu, ImagePlace::kStream);
  const auto crops = random_crops(24000, images.size());
  std::vector<at::Tensor> got;
  for (int64_t first = 0; first < 24000; first += 8000)
    got.push_back(streamed.cut(&crops[first], 8000, Augmentation{}));
  EXPECT_TRUE(at::cat(got).cpu().equal(cut(images, crops.data(), 24000, Augmentation{})));
}

// A resident part, a lazy one, which is streamed, and one of larger images, in one batch.
TEST(DeviceCut, OfAMixtureIsThatOfItsParts) {
  const auto lazy = open_lazily("world:outliers:1000000", {});
  const ImageSet small = random_images(2000, 3, 32, 32), large = random_images(500, 3, 64, 64);
  const Mixture mixture({{small, 0.3}, {lazy->images(), 0.4, lazy}, {large, 0.3}});
  for (const auto place : {ImagePlace::kAuto, ImagePlace::kStream}) {
    const DeviceImages images(mixture, kGpu, place);
    for (const int64_t count : {128, 4000}) {
      std::vector<Crop> crops = random_crops(count, mixture.size());
      for (size_t i = 0; i < crops.size(); i += 3) crops[i].image %= small.size();
      for (size_t i = 1; i < crops.size(); i += 3)
        crops[i].image = mixture.size() - 1 - crops[i].image % large.size();
      const at::Tensor got = images.cut(crops.data(), count, Augmentation{});
      EXPECT_TRUE(got.is_cuda());
      EXPECT_TRUE(got.cpu().equal(cut(mixture, crops.data(), count, Augmentation{})));
    }
  }
}

TEST(DeviceCut, TakesTheCpuForColours) {
  Augmentation a;
  a.brightness = a.hue = 0.2;
  expect_same(random_images(20, 3, 40, 40), a);
}

}  // namespace
}  // namespace poem
