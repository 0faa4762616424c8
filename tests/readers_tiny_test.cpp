// TinyImages' file: planes of columns, mapped.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "core/file.h"
#include "expect_error.h"
#include "images/pool.h"
#include "poem/crops.h"
#include "poem/random.h"
#include "poem/read.h"
#include "temporary_folder.h"

namespace poem {
namespace {

constexpr int64_t kBytes = 3072;

// The published layout: the value of (row, column, channel) is byte row + 32·column + 1024·channel.
uint8_t value(int64_t image, int64_t channel, int64_t row, int64_t column) {
  return static_cast<uint8_t>(Stream(1, "tiny", image, 1024 * channel + 32 * column + row).bits());
}

std::string file_of(int64_t images) {
  std::string bytes(images * kBytes, '\0');
  for (int64_t i = 0; i < images; ++i) {
    for (int64_t c = 0; c < 3; ++c) {
      for (int64_t y = 0; y < 32; ++y) {
        for (int64_t x = 0; x < 32; ++x)
          bytes[i * kBytes + y + 32 * x + 1024 * c] = static_cast<char>(value(i, c, y, x));
      }
    }
  }
  return bytes;
}

class Tiny : public ::testing::Test {
 protected:
  Tiny() { folder.put("tiny_images.bin", file_of(9)); }
  TemporaryFolder folder;
  const std::string path = folder / "tiny_images.bin";
};

void expect_images(const at::Tensor& batch, const std::vector<int64_t>& images) {
  ASSERT_EQ(batch.sizes(), at::IntArrayRef({static_cast<int64_t>(images.size()), 3, 32, 32}));
  const at::Tensor plain = batch.contiguous();
  const auto* p = plain.data_ptr<uint8_t>();
  for (const int64_t image : images) {
    for (int64_t c = 0; c < 3; ++c) {
      for (int64_t y = 0; y < 32; ++y) {
        for (int64_t x = 0; x < 32; ++x) ASSERT_EQ(*p++, value(image, c, y, x));
      }
    }
  }
}

TEST_F(Tiny, PlanesGoColumnByColumn) {
  const ImageSet set = read_images(path);
  EXPECT_EQ(set.size(), 9);
  EXPECT_FALSE(set.labelled());
  expect_images(set.pixels, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  const std::vector<Crop> crops = {{8, 0}, {0, 0}, {3, 0}};
  expect_images(cut(set, crops.data(), 3, plain(32)), {8, 0, 3});
}

TEST_F(Tiny, CropsAreThoseOfTheSamePixelsInMemory) {
  const ImageSet mapped = read_images(path);
  ImageSet copied = mapped;
  copied.pixels = mapped.pixels.contiguous();
  Augmentation crop, small;
  crop.brightness = 0.3;
  small.size = 16;
  small.resize = true;
  const std::vector<Crop> pool = draw_pool(9, 40, 5, 0);
  for (const Augmentation& a : {crop, small})
    EXPECT_TRUE(cut(mapped, pool.data(), 40, a).equal(cut(copied, pool.data(), 40, a)));
  EXPECT_TRUE(read_images(path, {16}).pixels.equal(cut(copied, draw_pool(9, 9, 1, 0).data(), 9, plain(16))));
}

TEST_F(Tiny, ExcludedImagesAreNeverInAPool) {
  folder.put("list.txt", "1\n5\n9\n");  // counted from 1
  const ImageSet set = read_images(path + "#exclude=" + (folder / "list.txt"));
  ASSERT_EQ(set.size(), 6);
  const std::vector<int64_t> kept = {1, 2, 3, 5, 6, 7};
  const std::vector<Crop> pool = draw_pool(set.size(), 600, 3, 1);
  std::vector<int64_t> images;
  for (const Crop& drawn : pool) images.push_back(kept[drawn.image]);
  expect_images(cut(set, pool.data(), 600, plain(32)), images);
  pack_images(path + "#exclude=" + (folder / "list.txt"), folder / "rest.poem", {});
  expect_images(read_images(folder / "rest.poem").pixels, kept);
}

// As many images as the published file has: as a hole they take no disk, but reading them would take minutes.
TEST_F(Tiny, IsNotRead) {
  const int64_t images = 79302017;
  if (::truncate(path.c_str(), images * kBytes) != 0) GTEST_SKIP() << "the file system has no such files";
  const ImageSet set = read_images(path);
  EXPECT_EQ(set.size(), images);
  const std::vector<Crop> pool = draw_pool(set.size(), 100, 1, 0);
  EXPECT_EQ(cut(set, pool.data(), 100, plain(32)).sum().item<int64_t>(), 0);
}

TEST_F(Tiny, RefusesOtherSizes) {
  for (const int64_t size : {int64_t{1}, kBytes - 1, kBytes + 1, 9 * kBytes - 3}) {
    folder.put("tiny_images.bin", std::string(size, 'x'));
    expect_error([&] { read_images(path); },
                 {path, std::to_string(size) + " bytes", "not a multiple of the 3072"});
  }
  folder.put("tiny_images.bin", "");
  expect_error([&] { read_images(path); }, {path, "is empty"});
}

}  // namespace
}  // namespace poem
