#include "images/mixture.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "expect_error.h"
#include "images/device_images.h"
#include "images/pool.h"
#include "mining/shares.h"
#include "poem/random.h"
#include "poem/read.h"
#include "readers/world_source.h"
#include "world/world.h"

namespace poem {
namespace {

ImageSet noise(const std::string& name, int64_t count, int64_t side, uint64_t seed) {
  Stream stream(seed, name);
  ImageSet images{name, at::empty({count, 3, side, side}, at::kByte), {}, {}};
  auto* p = images.pixels.data_ptr<uint8_t>();
  for (int64_t i = 0; i < images.pixels.numel(); ++i) p[i] = static_cast<uint8_t>(stream.bits());
  return images;
}

Mixture of_sizes(const std::vector<int64_t>& sizes, const std::vector<double>& shares) {
  std::vector<MixturePart> parts;
  for (size_t i = 0; i < sizes.size(); ++i)
    parts.push_back({{"part", at::zeros({sizes[i], 1, 1, 1}, at::kByte), {}, {}}, shares[i]});
  return Mixture(std::move(parts));
}

TEST(Mixture, FindsImagesInOneIndexSpace) {
  const Mixture mixture = of_sizes({3, 1, 5}, {0.2, 0.3, 0.5});
  EXPECT_EQ(mixture.size(), 9);
  int64_t image = 0;
  for (size_t part = 0; part < 3; ++part) {
    for (int64_t i = 0; i < mixture.parts()[part].images.size(); ++i, ++image) {
      EXPECT_EQ(mixture.find(image).part, part);
      EXPECT_EQ(mixture.find(image).image, i);
    }
  }
  expect_error([&] { mixture.find(9); }, {"9 images", "image 9 is needed"});
  expect_error([&] { mixture.find(-1); }, {"image -1 is needed"});
  EXPECT_TRUE(Mixture().empty());
  EXPECT_EQ(Mixture().size(), 0);
}

// Crops of a mixed batch in any order are those of the parts alone, whatever the sizes of their images.
TEST(Mixture, CutsEachPartAsIfAlone) {
  const ImageSet small = noise("small", 20, 32, 1), large = noise("large", 7, 64, 2),
                 odd = noise("odd", 5, 40, 3);
  const Mixture mixture({{small, 0.3}, {large, 0.3}, {odd, 0.4}});
  const DeviceImages device(mixture, at::kCPU);
  Stream stream(1, "crops");
  for (const bool resize : {false, true}) {
    Augmentation augmentation;
    augmentation.resize = resize;
    std::vector<Crop> crops;
    for (int i = 0; i < 200; ++i) crops.push_back({static_cast<int64_t>(stream.below(32)), stream.bits64()});
    const at::Tensor batch = cut(mixture, crops.data(), 200, augmentation);
    ASSERT_EQ(batch.sizes(), at::IntArrayRef({200, 3, 32, 32}));
    for (int64_t i = 0; i < 200; ++i) {
      const int64_t image = crops[i].image;
      const ImageSet& set = image < 20 ? small : image < 27 ? large : odd;
      const Crop own{image < 20 ? image : image < 27 ? image - 20 : image - 27, crops[i].seed};
      EXPECT_TRUE(at::equal(batch[i], cut(set, &own, 1, augmentation)[0])) << i;
    }
    EXPECT_TRUE(at::equal(batch, device.cut(crops.data(), 200, augmentation)));
  }
  EXPECT_EQ(cut(mixture, nullptr, 0, {}).sizes(), at::IntArrayRef({0, 3, 32, 32}));
  const std::vector<Crop> last = {{31, 5}, {28, 6}};  // of one part only
  const std::vector<Crop> own = {{4, 5}, {1, 6}};
  EXPECT_TRUE(at::equal(cut(mixture, last.data(), 2, {}), cut(odd, own.data(), 2, {})));
}

TEST(MixedPool, CountsAddUpAndAreNearTheShares) {
  Stream stream(1, "shares");
  for (int round = 0; round < 500; ++round) {
    std::vector<double> shares(1 + stream.below(5));
    double sum = 0;
    for (double& share : shares) sum += share = stream.uniform(0.01, 1);
    for (double& share : shares) share /= sum;
    const auto size = static_cast<int64_t>(1 + stream.below(100000));
    const std::vector<int64_t> counts =
        pool_counts(of_sizes(std::vector<int64_t>(shares.size(), 10), shares), size);
    int64_t total = 0;
    for (size_t i = 0; i < shares.size(); ++i) {
      total += counts[i];
      EXPECT_LT(std::abs(static_cast<double>(counts[i]) - shares[i] * static_cast<double>(size)), 1);
    }
    EXPECT_EQ(total, size);
  }
  EXPECT_EQ(pool_counts(of_sizes({9, 9}, {0.29, 0.71}), 100), (std::vector<int64_t>{29, 71}));
  EXPECT_EQ(pool_counts(of_sizes({9, 9, 9}, {1.0 / 3, 1.0 / 3, 1.0 / 3}), 10),
            (std::vector<int64_t>{4, 3, 3}));
}

TEST(MixedPool, DrawsEveryPartWithoutRepeatsInOrder) {
  const Mixture mixture = of_sizes({50, 1000, 30}, {0.2, 0.5, 0.3});
  const std::vector<Crop> pool = draw_pool(mixture, 100, 7, 3);
  ASSERT_EQ(pool.size(), 100u);
  std::vector<int64_t> counts(3);
  std::set<int64_t> images;
  std::set<uint64_t> seeds;
  for (size_t i = 0; i < pool.size(); ++i) {
    ++counts[mixture.find(pool[i].image).part];
    images.insert(pool[i].image);
    seeds.insert(pool[i].seed);
    if (i > 0) {
      EXPECT_LT(pool[i - 1].image, pool[i].image);
    }
  }
  EXPECT_EQ(counts, (std::vector<int64_t>{20, 50, 30}));
  EXPECT_EQ(images.size(), 100u);
  EXPECT_EQ(seeds.size(), 100u);
  // Two parts of one size are drawn independently, and a share above the part's size repeats its images.
  const std::vector<Crop> twins = draw_pool(of_sizes({100, 100}, {0.5, 0.5}), 100, 7, 3);
  bool equal = true;
  for (size_t i = 0; i < 50; ++i) equal = equal && twins[i].image + 100 == twins[50 + i].image;
  EXPECT_FALSE(equal);
  std::vector<int64_t> times(4);
  for (const Crop& crop : draw_pool(of_sizes({4, 100}, {0.5, 0.5}), 20, 1, 0)) {
    if (crop.image < 4) ++times[static_cast<size_t>(crop.image)];
  }
  for (const int64_t n : times) EXPECT_TRUE(n == 2 || n == 3) << n;
}

// What version 0.1.0 drew: runs of it can be resumed.
TEST(MixedPool, OfOneSourceIsTheDrawItAlwaysWas) {
  Stream stream(7, "pool", 3);
  const std::vector<int64_t> images = sample(1000, 60, stream);
  const std::vector<Crop> pool = draw_pool(of_sizes({1000}, {1}), 60, 7, 3);
  ASSERT_EQ(pool.size(), 60u);
  for (size_t i = 0; i < 60; ++i) {
    EXPECT_EQ(pool[i].image, images[i]);
    EXPECT_EQ(pool[i].seed, stream.bits64());
  }
  const std::vector<Crop> first = draw_pool(of_sizes({1000, 1000}, {0.5, 0.5}), 120, 7, 3);
  for (size_t i = 0; i < 60; ++i) EXPECT_EQ(first[i].image, images[i]);
}

TEST(Lazy, WorldsAreEqualToDrawnOnesPixelByPixel) {
  for (const char* source : {"world:outliers:700:5", "world:train:40", "world:digits:30:2"}) {
    for (const int64_t size : {0, 16, 48}) {
      const ReadOptions options{size};
      const ImageSet eager = read_images(source, options);
      const auto lazy = open_lazily(source, options);
      ASSERT_TRUE(lazy);
      EXPECT_EQ(lazy->made(), 0);
      EXPECT_EQ(lazy->images().name, eager.name);
      EXPECT_EQ(lazy->images().size(), eager.size());
      EXPECT_EQ(lazy->images().class_names, eager.class_names);
      std::vector<Crop> crops;
      for (int64_t i = eager.size() - 1; i >= 0; i -= 3) crops.insert(crops.end(), {{i, 0}, {i, 1}});
      lazy->make(crops.data(), static_cast<int64_t>(crops.size()));
      EXPECT_EQ(lazy->made(), static_cast<int64_t>(crops.size() / 2));
      for (const Crop& crop : crops) {
        EXPECT_TRUE(at::equal(lazy->images().pixels[crop.image], eager.pixels[crop.image])) << source;
        if (eager.labelled()) {
          EXPECT_EQ(lazy->images().labels[crop.image].item<int64_t>(),
                    eager.labels[crop.image].item<int64_t>());
        }
      }
      lazy->make(crops.data(), 2);
      EXPECT_EQ(lazy->made(), static_cast<int64_t>(crops.size() / 2));  // none is made twice
    }
  }
}

TEST(Lazy, OnlyWholeWorldsOfImagesAre) {
  EXPECT_FALSE(open_lazily("world:outliers:100#count=10", {}));
  EXPECT_FALSE(open_lazily("world2d:outliers:100", {}));
  expect_error([] { open_lazily("world:outlier:100", {}); }, {"world:outlier", "no such set"});
  expect_error([] { open_lazily("world:outliers:0", {}); }, {"COUNT is '0'"});
}

// 3 GB of pixels, of which a few pages are touched.
TEST(Lazy, AMillionImagesTakeNoMemoryUntilTheyAreNeeded) {
  const auto lazy = open_lazily("world:outliers:1000000", {});
  const Mixture mixture({{lazy->images(), 1, lazy}});
  const Crop crops[] = {{999999, 1}, {123456, 2}};
  const at::Tensor batch = cut(mixture, crops, 2, plain(32));
  EXPECT_EQ(lazy->made(), 2);
  std::vector<uint8_t> pixels(3 * 32 * 32);
  WorldImages("outliers", 1000000, 0).draw(123456, pixels.data());
  EXPECT_TRUE(at::equal(batch[1].flatten(), at::tensor(at::ArrayRef<uint8_t>(pixels), at::kByte)));
}

TEST(MixedShares, OfClassesAndSources) {
  const auto lazy = open_lazily("world:outliers:20", {});
  const ImageSet eager = draw_world("outliers", 20, 0);
  ImageSet cats{
      "cats", at::zeros({4, 3, 8, 8}, at::kByte), at::tensor({0, 1, 1, 0}, at::kLong), {"tom", "tabby"}};
  const ImageSet plain{"plain", at::zeros({6, 3, 8, 8}, at::kByte), {}, {}};
  const std::vector<Crop> pool = {{0, 0}, {1, 0}, {5, 0}, {12, 0}, {12, 1}}, mined = {{1, 0}, {12, 1}};
  // One source with labels: the names of its classes. Images of the others belong to no class.
  const auto some =
      class_shares(Mixture({{cats, 0.5}, {plain, 0.5}}), {pool[0], pool[1], pool[2]}, {pool[1]});
  ASSERT_EQ(some.size(), 2u);
  EXPECT_EQ(some[0].name, "tabby");
  EXPECT_DOUBLE_EQ(some[0].pool, 1.0 / 3);
  EXPECT_DOUBLE_EQ(some[0].mined, 1);
  EXPECT_DOUBLE_EQ(some[1].pool, 1.0 / 3);
  // Several: the source is part of the name.
  const Mixture mixture({{cats, 0.4}, {plain, 0.3}, {lazy->images(), 0.3, lazy}});
  const std::string drawn = eager.class_names[eager.labels[2].item<int64_t>()] + " (world:outliers:20)";
  const auto classes = class_shares(mixture, pool, mined);
  ASSERT_EQ(classes.size(), 24u);  // the most mined
  EXPECT_EQ((std::set<std::string>{classes[0].name, classes[1].name}),
            (std::set<std::string>{"tabby (cats)", drawn}));
  for (const ClassShare& share : classes) {
    if (share.name == drawn) {
      EXPECT_DOUBLE_EQ(share.pool, 0.4);
    }
    if (share.name == "tabby (cats)") {
      EXPECT_DOUBLE_EQ(share.mined, 0.5);
    }
  }
  const auto sources = source_shares(mixture, pool, mined);
  ASSERT_EQ(sources.size(), 3u);
  EXPECT_EQ(sources[1].name, "plain");
  EXPECT_DOUBLE_EQ(sources[0].pool, 0.4);
  EXPECT_DOUBLE_EQ(sources[1].pool, 0.2);
  EXPECT_DOUBLE_EQ(sources[2].pool, 0.4);
  EXPECT_DOUBLE_EQ(sources[0].mined, 0.5);
  EXPECT_DOUBLE_EQ(sources[1].mined, 0);
  EXPECT_DOUBLE_EQ(sources[2].mined, 0.5);
}

}  // namespace
}  // namespace poem
