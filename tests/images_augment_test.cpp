#include "poem/crops.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "poem/error.h"
#include "poem/random.h"

namespace poem {
namespace {

ImageSet noise(int64_t n, int64_t channels, int64_t height, int64_t width) {
  Stream stream(11, "noise");
  at::Tensor pixels = at::empty({n, channels, height, width}, at::kByte);
  auto* p = pixels.data_ptr<uint8_t>();
  for (int64_t i = 0; i < pixels.numel(); ++i) p[i] = static_cast<uint8_t>(1 + stream.below(255));
  return {"noise", pixels, {}, {}};
}

ImageSet flat(std::vector<int> colour, int64_t side = 8) {
  at::Tensor pixels = at::empty({1, static_cast<int64_t>(colour.size()), side, side}, at::kByte);
  for (size_t c = 0; c < colour.size(); ++c) pixels[0][static_cast<int64_t>(c)].fill_(colour[c]);
  return {"flat", pixels, {}, {}};
}

Augmentation quiet(int64_t size) {  // neither crop nor flip
  Augmentation a;
  a.size = size;
  a.random_crop = a.flip = false;
  return a;
}

std::vector<Crop> crops_of(int64_t count, int64_t images, uint64_t seed = 0) {
  std::vector<Crop> crops;
  for (int64_t i = 0; i < count; ++i) crops.push_back({i * 7 % images, seed + i});
  return crops;
}

// One view, pixel by pixel from an explicitly padded image. dy, dx count from the padded corner.
at::Tensor naive(const at::Tensor& image, int64_t size, int64_t padding, int64_t dy, int64_t dx, bool flip) {
  const at::Tensor padded = at::constant_pad_nd(image, {padding, padding, padding, padding}, 0);
  at::Tensor out = at::empty({image.size(0), size, size}, at::kByte);
  auto from = padded.accessor<uint8_t, 3>();
  auto to = out.accessor<uint8_t, 3>();
  for (int64_t c = 0; c < image.size(0); ++c) {
    for (int64_t y = 0; y < size; ++y) {
      for (int64_t x = 0; x < size; ++x) to[c][y][x] = from[c][y + dy][dx + (flip ? size - 1 - x : x)];
    }
  }
  return out;
}

// The view that equals `view`: exactly one (dy, dx, flip) must.
std::vector<int64_t> find_view(const at::Tensor& image, const at::Tensor& view, int64_t padding) {
  const int64_t size = view.size(1);
  std::vector<int64_t> found;
  for (int64_t dy = 0; dy <= image.size(1) + 2 * padding - size; ++dy) {
    for (int64_t dx = 0; dx <= image.size(2) + 2 * padding - size; ++dx) {
      for (bool flip : {false, true}) {
        if (at::equal(naive(image, size, padding, dy, dx, flip), view)) {
          EXPECT_TRUE(found.empty()) << "two views fit";
          found = {dy, dx, flip};
        }
      }
    }
  }
  return found;
}

TEST(Cut, EveryCropIsOneOfThePerPixelViewsAndAllOccur) {
  struct Case {
    int64_t height, width, size, padding;
  };
  for (const Case& c : {Case{8, 8, 8, 2}, Case{9, 11, 8, 1}, Case{6, 7, 8, 2}, Case{12, 12, 8, 0}}) {
    const ImageSet images = noise(3, 3, c.height, c.width);
    Augmentation a;
    a.size = c.size;
    a.padding = c.padding;
    const auto crops = crops_of(600, 3);
    const at::Tensor views = cut(images, crops.data(), 600, a);
    ASSERT_EQ(views.sizes(), at::IntArrayRef({600, 3, c.size, c.size}));
    std::set<std::vector<int64_t>> seen;
    for (int64_t i = 0; i < 600; ++i) {
      const auto view = find_view(images.pixels[crops[i].image], views[i], c.padding);
      ASSERT_EQ(view.size(), 3u) << "crop " << i << " is no view of its image";
      seen.insert(view);
    }
    const size_t all = 2 * (c.height + 2 * c.padding - c.size + 1) * (c.width + 2 * c.padding - c.size + 1);
    EXPECT_EQ(seen.size(), all);
  }
}

TEST(Cut, PositionsAndFlipsAreUniform) {
  // A one-pixel view of an image that numbers its pixels tells where it was cut.
  ImageSet images{"ramp", at::arange(1, 10, at::kByte).view({1, 1, 3, 3}), {}, {}};
  Augmentation a;
  a.size = 1;
  a.padding = 0;
  const int64_t n = 90000;
  std::vector<Crop> crops;
  for (int64_t i = 0; i < n; ++i) crops.push_back({0, static_cast<uint64_t>(i)});
  const at::Tensor views = cut(images, crops.data(), n, a);
  for (int value = 1; value <= 9; ++value) {
    EXPECT_NEAR(views.eq(value).sum().item<int64_t>(), n / 9.0, 5 * std::sqrt(n / 9.0));
  }
  ImageSet pair{"pair", at::arange(0, 4, at::kByte).view({1, 1, 2, 2}), {}, {}};
  a.size = 2;
  const int64_t flipped = cut(pair, crops.data(), n, a).select(3, 0).select(2, 0).eq(1).sum().item<int64_t>();
  EXPECT_NEAR(flipped, n / 2.0, 5 * std::sqrt(n / 4.0));
  a.flip = false;
  EXPECT_TRUE(at::equal(cut(pair, crops.data(), 100, a), pair.pixels.expand({100, 1, 2, 2})));
}

TEST(Cut, DependsOnImageAndSeedOnlyNotOnTheBatch) {
  const ImageSet images = noise(5, 3, 40, 36);
  Augmentation a;
  a.brightness = a.contrast = a.saturation = 0.2;
  a.hue = 0.1;
  a.resize = true;
  const auto crops = crops_of(100, 5, 1234567890123456789u);
  const at::Tensor batch = cut(images, crops.data(), 100, a);
  for (int64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(at::equal(cut(images, &crops[i], 1, a)[0], batch[i]));
  }
  EXPECT_FALSE(at::equal(batch[0], batch[5]));  // same image, another seed
}

TEST(Cut, TurningJitterOnKeepsPositionAndFlip) {
  const ImageSet images = noise(5, 3, 32, 32);
  Augmentation a, faint = a;
  faint.brightness = 1e-6;
  const auto crops = crops_of(50, 5);
  EXPECT_TRUE(at::equal(cut(images, crops.data(), 50, a), cut(images, crops.data(), 50, faint)));
}

TEST(Cut, PlainTakesTheCentreOfSmallAndShrinksLargeImages) {
  const Crop crop{0, 99};
  const ImageSet same = noise(1, 3, 32, 32);
  EXPECT_TRUE(at::equal(cut(same, &crop, 1, plain(32)), same.pixels));
  const ImageSet small = noise(1, 3, 28, 28);
  EXPECT_TRUE(at::equal(cut(small, &crop, 1, plain(32)), at::constant_pad_nd(small.pixels, {2, 2, 2, 2}, 0)));
  const ImageSet large = noise(1, 3, 64, 64);
  const at::Tensor mean = at::adaptive_avg_pool2d(large.pixels.to(at::kDouble), {32, 32});
  EXPECT_TRUE(at::equal(cut(large, &crop, 1, plain(32)), (mean + 0.5).floor().to(at::kByte)));
}

TEST(Cut, ResizeIsTheAreaAverage) {
  const int64_t size = 4;
  for (auto sides : {std::pair<int64_t, int64_t>{8, 8}, {12, 8}, {6, 5}, {9, 7}, {4, 6}, {3, 6}}) {
    const ImageSet images = noise(2, 3, sides.first, sides.second);
    const auto crops = crops_of(2, 2);
    const at::Tensor small = cut(images, crops.data(), 2, plain(size));
    // Repeating each pixel `size` times makes every output pixel a whole block.
    const at::Tensor fine =
        images.pixels.to(at::kDouble).repeat_interleave(size, 2).repeat_interleave(size, 3);
    for (int64_t i = 0; i < 2; ++i) {
      for (int64_t c = 0; c < 3; ++c) {
        for (int64_t y = 0; y < size; ++y) {
          for (int64_t x = 0; x < size; ++x) {
            const double mean = fine[crops[i].image][c]
                                    .slice(0, y * sides.first, (y + 1) * sides.first)
                                    .slice(1, x * sides.second, (x + 1) * sides.second)
                                    .mean()
                                    .item<double>();
            ASSERT_EQ(small[i][c][y][x].item<int>(), static_cast<int>(std::floor(mean + 0.5 + 1e-9)));
          }
        }
      }
    }
  }
}

TEST(Cut, ResizeComesBeforeTheRandomCrop) {
  const ImageSet images = noise(1, 3, 16, 16);
  const Crop whole{0, 0};
  const ImageSet small{"small", cut(images, &whole, 1, plain(8)), {}, {}};
  Augmentation a;
  a.size = 8;
  a.padding = 2;
  Augmentation resized = a;
  resized.resize = true;
  const auto crops = crops_of(40, 1);
  EXPECT_TRUE(at::equal(cut(images, crops.data(), 40, resized), cut(small, crops.data(), 40, a)));
}

TEST(Jitter, BrightnessScalesAFlatImage) {
  const ImageSet images = flat({100, 50, 200});
  Augmentation a = quiet(8);
  a.brightness = 0.5;
  double low = 9, high = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Crop crop{0, seed};
    const at::Tensor view = cut(images, &crop, 1, a)[0];
    EXPECT_TRUE(at::equal(view, view.select(1, 0).select(1, 0).view({3, 1, 1}).expand({3, 8, 8})));
    const double factor = view[0][0][0].item<int>() / 100.0;
    EXPECT_NEAR(view[1][0][0].item<int>(), 50 * factor, 0.8);
    EXPECT_NEAR(view[2][0][0].item<int>(), std::min(255.0, 200 * factor), 1.6);
    low = std::min(low, factor);
    high = std::max(high, factor);
  }
  EXPECT_NEAR(low, 0.5, 0.03);
  EXPECT_NEAR(high, 1.5, 0.03);
}

TEST(Jitter, ContrastMovesAwayFromTheMeanOrTowardsIt) {
  at::Tensor pixels = at::full({1, 3, 2, 2}, 80, at::kByte);
  pixels.slice(3, 1, 2).fill_(120);
  const ImageSet images{"two", pixels, {}, {}};
  Augmentation a = quiet(2);
  a.contrast = 0.9;
  std::set<int> gaps;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Crop crop{0, seed};
    const at::Tensor view = cut(images, &crop, 1, a)[0].to(at::kInt);
    const int dark = view[0][0][0].item<int>(), bright = view[0][0][1].item<int>();
    EXPECT_NEAR(dark + bright, 200, 1);
    gaps.insert(bright - dark);
  }
  EXPECT_LT(*gaps.begin(), 12);  // 40 × 0.1 … 1.9
  EXPECT_GT(*gaps.rbegin(), 68);
}

TEST(Jitter, SaturationKeepsTheGreyLevelAndLeavesGreyAlone) {
  Augmentation a = quiet(8);
  a.saturation = 0.5;
  const ImageSet images = flat({120, 100, 90}), neutral = flat({77, 77, 77});
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const Crop crop{0, seed};
    const at::Tensor view = cut(images, &crop, 1, a)[0].select(1, 0).select(1, 0).to(at::kDouble);
    const double level =
        0.299 * view[0].item<double>() + 0.587 * view[1].item<double>() + 0.114 * view[2].item<double>();
    EXPECT_NEAR(level, 0.299 * 120 + 0.587 * 100 + 0.114 * 90, 0.6);
    const double factor = (view[0].item<double>() - level) / (120 - 104.84);
    EXPECT_GT(factor, 0.45);
    EXPECT_LT(factor, 1.55);
    EXPECT_TRUE(at::equal(cut(neutral, &crop, 1, a), neutral.pixels));
  }
}

// Along the colour wheel a shift of t turns from pure red gives max 255, min 0 and a known middle.
TEST(Jitter, HueTurnsTheColourWheel) {
  Augmentation a = quiet(8);
  a.hue = 0.5;
  const ImageSet images = flat({255, 0, 0}), neutral = flat({50, 50, 50});
  std::set<int> sixths;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Crop crop{0, seed};
    const at::Tensor view = cut(images, &crop, 1, a)[0].select(1, 0).select(1, 0);
    EXPECT_EQ(view.max().item<int>(), 255);
    EXPECT_EQ(view.min().item<int>(), 0);
    sixths.insert(view.argmax().item<int>() * 3 + view.argmin().item<int>());
    EXPECT_TRUE(at::equal(cut(neutral, &crop, 1, a), neutral.pixels));
  }
  EXPECT_EQ(sixths.size(), 6u);  // every sector of the wheel is reached

  // A seed whose shift is known by other means: shifting red and green by the same t keeps them a third of a
  // turn apart, so green's view is red's with the channels moved on by one.
  const ImageSet green = flat({0, 255, 0});
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const Crop crop{0, seed};
    const at::Tensor red_view = cut(images, &crop, 1, a), green_view = cut(green, &crop, 1, a);
    EXPECT_LE((red_view.roll(1, 1).to(at::kInt) - green_view.to(at::kInt)).abs().max().item<int>(), 1);
  }
}

TEST(Jitter, OneChannelKnowsBrightnessAndContrastOnly) {
  Augmentation a = quiet(8);
  a.saturation = 0.9;
  a.hue = 0.5;
  const ImageSet images = noise(1, 1, 8, 8);
  const Crop crop{0, 1};
  EXPECT_TRUE(at::equal(cut(images, &crop, 1, a), images.pixels));
  a.brightness = 0.9;
  EXPECT_FALSE(at::equal(cut(images, &crop, 1, a), images.pixels));
}

TEST(Cut, PassesPointsThrough) {
  const ImageSet points{"points", at::arange(8, at::kFloat).view({4, 2, 1, 1}), {}, {}};
  const std::vector<Crop> crops = {{3, 1}, {0, 2}, {3, 3}};
  const at::Tensor result = cut(points, crops.data(), 3, Augmentation());
  EXPECT_TRUE(at::equal(result.view({3, 2}), at::tensor({6, 7, 0, 1, 6, 7}, at::kFloat).view({3, 2})));
}

TEST(Cut, NamesWhatCannotBeCut) {
  const ImageSet images = noise(4, 3, 20, 20);
  Augmentation a;
  for (int64_t image : {-1, 4}) {
    const Crop crop{image, 0};
    EXPECT_THROW(cut(images, &crop, 1, a), Error);
  }
  const Crop crop{0, 0};
  a.padding = 5;  // 20 + 10 < 32
  EXPECT_THROW(cut(images, &crop, 1, a), Error);
  a.padding = 6;  // just enough: one position only, the centre
  a.flip = false;
  EXPECT_TRUE(at::equal(cut(images, &crop, 1, a), cut(images, &crop, 1, plain(32))));
  EXPECT_EQ(cut(images, nullptr, 0, plain(32)).size(0), 0);
}

// Who cuts by the places alone gets the pixels of cut().
TEST(CropPlaces, SayWhatCutDoes) {
  at::manual_seed(4);
  const ImageSet images{"random", at::randint(0, 256, {5, 2, 40, 33}, at::kByte), {}, {}};
  std::vector<Crop> crops;
  for (int64_t i = 0; i < 50; ++i) crops.push_back({i % 5, static_cast<uint64_t>(i)});
  const Augmentation a;
  const at::Tensor places = crop_places(images, crops.data(), 50, a),
                   expected = cut(images, crops.data(), 50, a);
  for (int64_t i = 0; i < 50; ++i) {
    const int32_t* p = places[i].data_ptr<int32_t>();
    const at::Tensor padded = at::constant_pad_nd(images.pixels[p[0]], {4, 4, 4, 4});
    at::Tensor crop = padded.narrow(1, p[1] + 4, a.size).narrow(2, p[2] + 4, a.size);
    if (p[3] != 0) crop = crop.flip(2);
    EXPECT_TRUE(crop.equal(expected[i])) << i;
  }
}

}  // namespace
}  // namespace poem
